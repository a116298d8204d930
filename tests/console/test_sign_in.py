"""Who may look, and for how long; a server that is not there; hands that have no mouse."""

import pytest
from browsing import go
from playwright.sync_api import expect
from stands import chats, lines


def ask_in(page, secret):
    page.get_by_label("API key").fill(secret)
    page.get_by_role("button", name="Sign in").click()


def test_a_key_opens_the_console_and_is_not_kept(window, stand, user):
    page = window.open(stand)
    expect(page.get_by_label("API key")).to_be_focused()
    ask_in(page, user.secret)
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_focused()
    expect(page.get_by_role("banner").get_by_text("ada")).to_be_visible()
    assert user.secret not in page.content()
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    (cookie,) = window.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], user.secret in cookie["value"]) == (True, "Strict", False)

    page.reload()
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You have signed out.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_wrong_key(window, stand):
    page = window.open(stand)
    ask_in(page, "hyi-wrong")
    expect(page.get_by_role("alert")).to_contain_text("This key does not work")
    expect(page.get_by_label("API key")).to_be_focused()
    assert window.context.cookies() == []


def test_too_many_wrong_keys(window, stand, user):
    window.context.set_extra_http_headers({"X-Forwarded-For": "192.0.2.7"})  # others may go on signing in
    page = window.open(stand)
    for _ in range(10):
        with page.expect_response("**/console/session"):
            ask_in(page, "hyi-wrong")
        expect(page.get_by_role("button", name="Sign in")).to_be_enabled()
    ask_in(page, user.secret)
    expect(page.get_by_role("alert")).to_contain_text("Too many attempts to sign in have failed")


def test_a_session_ends_with_its_key(page, stand, user):
    expect(page.get_by_text("No batches yet")).to_be_visible()
    stand.admin.api.delete(f"/v1/admin/keys/{user.key_id}").raise_for_status()
    expect(page.get_by_text("Your session has ended. Sign in to go on.")).to_be_visible()
    expect(page.get_by_role("banner")).to_be_hidden()


@pytest.mark.parametrize("view", ["nothing/here", "batches/batch_none", "operator"])
def test_what_is_not_there_is_said(page, view):
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_visible()
    go(page, view)
    told = {
        "nothing/here": "There is nothing here",
        "batches/batch_none": "This batch is not there",
        "operator": "This is for accounts",
    }
    expect(page.get_by_role("main").get_by_text(told[view])).to_be_visible()


def test_a_server_that_is_gone_for_a_while(page, stand, user):
    batch_id = user.submit(chats(2))
    row = page.get_by_role("row").filter(has_text=batch_id)
    expect(row).to_contain_text("Completed")
    stand.daemon.terminate()
    expect(page.get_by_text("The server does not answer at the moment")).to_be_visible()
    expect(row).to_be_visible()  # what was there stays
    stand.restart()
    expect(page.get_by_text("The server does not answer at the moment")).to_be_hidden()
    page.reload()  # the session outlives the daemon
    expect(row).to_contain_text("Completed")


class Keyboard:
    """Hands on a keyboard: from one control to the next, until the one that is meant has the focus."""

    def __init__(self, page):
        self.page = page

    def to(self, role, name, *, most=60):
        for _ in range(most):
            if self.page.get_by_role(role, name=name, exact=True).and_(self.page.locator(":focus")).count():
                assert self.page.evaluate("document.activeElement.matches(':focus-visible')")
                return self
            self.page.keyboard.press("Tab")
        raise AssertionError(f"{most} steps did not lead to the {role} {name}")

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        return self


def test_a_keyboard_is_enough(window, stand, user, tmp_path):
    """Sign in, submit a file, cancel the batch, delete it."""
    stand.rules()
    page = window.open(stand)
    keyboard = Keyboard(page)
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(user.secret)
    keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_focused()

    page.reload()
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_focused()
    page.evaluate("document.activeElement.blur()")
    keyboard.to("link", "Skip to the content").press("Enter")
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_focused()
    keyboard.to("link", "New batch").press("Enter")
    expect(page.get_by_role("heading", name="New batch")).to_be_focused()
    file = tmp_path / "held.jsonl"
    file.write_text(lines(3, "please hold"))
    with page.expect_file_chooser() as chooser:
        keyboard.to("button", "Choose a file").press("Enter")
    chooser.value.set_files(file)
    expect(page.get_by_text("No problems seen.")).to_be_visible()
    keyboard.to("button", "Submit the batch").press("Enter")
    expect(page.get_by_role("heading", name="held.jsonl", level=1)).to_be_focused()

    keyboard.to("button", "Cancel").press("Enter")
    dialog = page.get_by_role("dialog", name="Cancel this batch?")
    expect(dialog.get_by_role("button", name="Keep it as it is")).to_be_focused()  # the one that does no harm
    keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    keyboard.press("Enter").to("button", "Cancel the batch").press("Enter")
    expect(page.get_by_text("The batch is being cancelled.")).to_be_visible()  # before what runs may end
    stand.rules({"match": "please hold", "action": {}})
    expect(page.get_by_text("Cancelling").first).to_be_visible()

    keyboard.to("button", "Delete").press("Enter").to("button", "Delete the batch").press("Enter")
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_focused()
    expect(page.get_by_text("No batches yet")).to_be_visible()
