"""What operators do: models out of service and back, accounts and their keys."""

import re

import pytest
from browsing import go
from daemons import finished
from playwright.sync_api import expect
from stands import GLM, PHI, chats


@pytest.fixture
def page(window, stand):
    """The console, with an operator signed in."""
    window.sign_in(stand, stand.admin)
    return window.open(stand, "operator")


def say_yes(page, verb):
    page.get_by_role("dialog").get_by_role("button", name=verb).click()


def test_a_model_is_drained_and_put_back(page, user):
    card = page.get_by_role("region", name=PHI)
    card.get_by_role("button", name=f"Drain {PHI}").click()
    say_yes(page, "Drain it")
    expect(card.get_by_text("Out of service since")).to_be_visible()
    refused = user.api.post("/v1/batches", json={"requests": chats(1, model=PHI)})
    assert refused.json()["error"]["code"] == "model_unavailable"
    card.get_by_role("button", name="Put back").click()
    expect(card.get_by_role("button", name=f"Drain {PHI}")).to_be_visible()
    assert finished(user.api, user.submit(chats(1, model=PHI)))["status"] == "completed"
    expect(card.get_by_text("Attempts today").locator("..")).to_contain_text("1")


def test_what_runs_waits_and_is_down(page, stand, user):
    held, down = (page.get_by_role("region", name=name) for name in (GLM, PHI))
    stand.rules({"match": PHI, "action": {"close": "before"}})
    user.submit(chats(20, "please hold"))
    user.submit(chats(20, model=PHI))
    expect(held.get_by_role("img", name="Batch requests at once")).to_have_accessible_name(re.compile("16 of 16$"))
    expect(held.get_by_role("img", name="All requests at once")).to_have_accessible_name(re.compile("16 of 64$"))
    expect(held.get_by_text("Queued").locator("..")).to_contain_text("4")
    expect(held.get_by_role("table").get_by_role("row").nth(1)).to_contain_text(re.compile("Up.*16 of "))
    expect(down.get_by_role("table").get_by_role("row").nth(1)).to_contain_text("Down")
    stand.rules({"match": "please hold", "action": {}})
    expect(held.get_by_role("img", name="Batch requests at once")).to_have_accessible_name(re.compile("0 of 16$"))
    expect(down.get_by_role("table").get_by_role("row").nth(1)).to_contain_text("Up")


def make_account(page, name, tier):
    page.get_by_role("button", name="New account").click()
    dialog = page.get_by_role("dialog", name="New account")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Tier").select_option(tier)
    dialog.get_by_role("button", name="Create the account").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def suspend_and_let_in(page, client):
    page.get_by_role("button", name="Suspend").click()
    say_yes(page, "Suspend the account")
    expect(page.get_by_text("The account is suspended.")).to_be_visible()
    assert client.get("/v1/account").status_code == 403
    page.get_by_role("button", name="Let it in again").click()
    expect(page.get_by_text("The account is let in again.")).to_be_visible()
    assert client.get("/v1/account").status_code == 200


def test_an_account_from_its_beginning_to_its_end(page, stand, user):
    go(page, "operator/accounts")
    make_account(page, "grace", "pro")
    expect(page.get_by_text("It has no keys.")).to_be_visible()

    page.get_by_role("button", name="New key").click()
    page.get_by_role("dialog").get_by_label("Models").fill(f"{PHI}, no-such-model")
    say_yes(page, "Make the key")
    expect(page.locator(".notice.bad")).to_contain_text("no-such-model")
    page.get_by_role("button", name="New key").click()
    page.get_by_role("dialog").get_by_label("It works for").select_option("A week")
    say_yes(page, "Make the key")
    secret = page.get_by_role("dialog", name="The new key").get_by_role("textbox").input_value()
    say_yes(page, "I have kept it")
    expect(page.get_by_role("table", name="Keys")).to_contain_text("in 7 days")
    grace = stand.daemon.client(secret)
    stand.clients.append(grace)
    assert grace.get("/v1/account").json()["name"] == "grace"

    page.get_by_role("button", name="Change the quota").click()
    page.get_by_role("dialog").get_by_label("US dollars a day").fill("12.50")
    say_yes(page, "Set the quota")
    expect(page.get_by_text("$12.50 (its own)")).to_be_visible()
    assert grace.get("/v1/usage").json()["quota"]["limit_usd"] == 12.5
    page.get_by_role("button", name="Move to a tier").click()
    page.get_by_role("dialog").get_by_label("Tier").select_option("internal")
    say_yes(page, "Move it")
    expect(page.get_by_text("The account is on the tier internal.")).to_be_visible()

    suspend_and_let_in(page, grace)
    page.get_by_role("button", name=re.compile("^Revoke hyi-")).click()
    say_yes(page, "Revoke the key")
    expect(page.get_by_role("table", name="Keys")).to_contain_text("Revoked")
    assert grace.get("/v1/account").status_code == 401
    page.get_by_role("button", name="Delete").click()
    say_yes(page, "Delete the account")
    expect(page.get_by_role("button", name="New account")).to_be_visible()
    page.get_by_role("search").get_by_label("Name or id").fill("grace")
    expect(page.get_by_text("No account is like this")).to_be_visible()


def test_accounts_are_found(page, stand, user):
    linus = stand.account("linus, who is found")
    go(page, "operator/accounts")
    page.get_by_role("search").get_by_label("Name or id").fill("WHO IS FOUND")
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(2)
    page.get_by_role("search").get_by_label("Name or id").fill(linus.id)
    expect(rows).to_have_count(2)
    page.get_by_role("link", name="linus, who is found").click()
    expect(page.get_by_role("table", name="Keys")).to_contain_text(linus.secret[:12])


def test_nothing_of_what_users_sent_is_shown(page, stand, user):
    finished(user.api, user.submit(chats(2, "a private question"), metadata={"note": "a private note"}))
    for view, told in {
        "operator": "Attempts today",
        "operator/accounts": "Spent today",
        f"operator/accounts/{user.id}": "The last 30 days",
        "operator/tiers": "Batch requests at once",
        "operator/spending": "By account",
        "operator/daemons": "this one answers you",
    }.items():
        go(page, view)
        expect(page.get_by_role("main").get_by_text(told).first).to_be_visible()
        assert "private" not in page.content()


def test_users_are_not_shown_the_way(window, stand, user):
    window.sign_in(stand, user)
    page = window.open(stand)
    expect(page.get_by_role("navigation", name="Views").get_by_role("link")).to_have_text(
        ["Batches", "Files", "Usage", "Webhook"]
    )
