"""The webhook: set, tested, delivered to, given a new secret, removed."""

import re

import pytest
from browsing import go
from playwright.sync_api import expect
from standardwebhooks import Webhook
from stands import chats


@pytest.fixture
def set_up(page, stand):
    """The view, with the webhook set; returns the page and the secret that was shown."""
    stand.receiver.answer = (204, "No Content")
    go(page, "batches")
    page.get_by_role("link", name="Webhook").last.click()  # the one of the Batches page
    expect(page.get_by_role("heading", name="No webhook is set")).to_be_visible()
    page.get_by_label("Address").fill(stand.receiver.url)
    page.get_by_role("button", name="Set the webhook").click()
    return page, keep_secret(page, "Your signing secret")


def keep_secret(page, title):
    dialog = page.get_by_role("dialog", name=title)
    secret = dialog.get_by_role("textbox").input_value()
    dialog.get_by_role("button", name="I have kept it").click()
    expect(dialog).to_have_count(0)
    assert secret not in page.content()
    return secret


def say_yes(page, verb):
    page.get_by_role("dialog").get_by_role("button", name=verb).click()


def test_an_ended_batch_is_delivered_and_again(set_up, stand, user):
    page, secret = set_up
    batch_id = user.submit(chats(2))
    post = stand.receiver.event_of(batch_id)
    Webhook(secret).verify(post.body, post.headers)
    row = page.get_by_role("row").filter(has_text=batch_id)
    expect(row).to_contain_text("Delivered")
    expect(row).to_contain_text("1 attempt, status 204")
    row.get_by_role("button", name="Deliver again").click()
    expect(page.get_by_text("It is being delivered again.")).to_be_visible()
    expect(row).to_contain_text("2 attempts, status 204")
    assert [each.id for each in stand.receiver.posts].count(post.id) == 2
    row.get_by_role("link", name=batch_id).click()
    expect(page.get_by_role("heading", name=batch_id)).to_be_visible()


def test_older_deliveries_are_shown_when_asked_for(set_up, user):
    page, _ = set_up
    for _ in range(31):
        user.submit(chats(1))
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(1 + 30)
    more = page.get_by_role("button", name="Show more")
    more.click()
    expect(rows).to_have_count(1 + 31)
    expect(more).to_be_hidden()
    expect(page.get_by_role("heading", name="Webhook", level=1)).to_be_focused()


def test_a_test_arrives_or_not(set_up, stand):
    page, _ = set_up
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("The test arrived: status 204")).to_be_visible()
    stand.receiver.answer = (500, "Internal Server Error")
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("The test did not arrive: status 500.")).to_be_visible()


def test_a_new_secret(set_up, stand, user):
    page, old = set_up
    page.get_by_role("button", name="New secret").click()
    say_yes(page, "Make a new secret")
    new = keep_secret(page, "Your signing secret")
    assert new != old
    post = stand.receiver.event_of(user.submit(chats(1)))
    for secret in (new, old):  # for a day
        Webhook(secret).verify(post.body, post.headers)


def test_removed(set_up, user):
    page, _ = set_up
    page.get_by_role("button", name="Remove").click()
    say_yes(page, "Keep it as it is")
    assert user.api.get("/v1/batch_webhook").status_code == 200
    page.get_by_role("button", name="Remove").click()
    say_yes(page, "Remove the webhook")
    expect(page.get_by_role("heading", name="No webhook is set")).to_be_visible()
    assert user.api.get("/v1/batch_webhook").status_code == 404


def test_an_address_that_may_not_be(page, stand):
    go(page, "webhook")
    page.get_by_label("Address").fill("https://user:password@example.com/")
    page.get_by_role("button", name="Set the webhook").click()
    expect(page.locator(".notice.bad")).to_have_text(re.compile("."))
    expect(page.get_by_role("heading", name="No webhook is set")).to_be_visible()
