"""Between the page and the server: a file's way there, answers that are lost or come late, a server that is out of reach, and
a page that nobody looks at."""

import pytest
from browsing import go
from daemons import finished
from playwright.sync_api import expect
from stands import GLM, chats, line, lines

WATCH_PROGRESS = """
() => {
  window.told = []
  const note = () => {
    const found = /Sending: (\\d+)/.exec(document.querySelector("main").textContent)
    if (found && window.told.at(-1) !== Number(found[1])) window.told.push(Number(found[1]))
  }
  new MutationObserver(note).observe(document.querySelector("main"), { childList: true, subtree: true, characterData: true })
}
"""
DROPPED = """
content => {
  const data = new DataTransfer()
  data.items.add(new File([content], "dropped.jsonl"))
  return data
}
"""


SHOW = """
isHidden => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true })
  document.dispatchEvent(new Event("visibilitychange"))
}
"""
MISSING = "The server does not answer at the moment"


@pytest.fixture(autouse=True)
def _routes(page):
    """Take back what the tests do to the page's calls."""
    yield
    page.unroute_all()


def test_submit_pressed_again_after_a_lost_answer_makes_no_second_batch(page, stand, user, tmp_path):
    stand.rules()
    path = tmp_path / "questions.jsonl"
    path.write_text(lines(2))
    lost = []

    def lose_the_first(route):
        if lost:
            return route.continue_()
        lost.append(route.fetch().status)
        return route.abort()

    page.route("**/v1/batches", lose_the_first)
    go(page, "new")
    page.get_by_label("JSONL file").set_input_files(path)
    expect(page.get_by_text("No problems seen.")).to_be_visible()
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.get_by_text("The server cannot be reached.").first).to_be_visible()
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.get_by_role("heading", name="questions.jsonl", level=1)).to_be_visible()
    assert lost == [200]
    assert len(user.api.get("/v1/account/batches").json()["data"]) == 1
    assert len(user.api.get("/v1/files?purpose=batch").json()["data"]) == 1


def test_a_late_list_of_files_does_not_replace_the_one_asked_for_last(page, user):
    user.api.post("/v1/files", files={"file": ("mine.jsonl", lines(1))}, data={"purpose": "batch"}).raise_for_status()
    held = []
    page.route("**/v1/files?limit=50", lambda route: held.append(route))
    go(page, "files")
    page.get_by_label("Kind").select_option("batch_output")
    expect(page.get_by_text("No files")).to_be_visible()
    with page.expect_response("**/v1/files?limit=50") as late:
        held[0].continue_()
    late.value.finished()
    page.evaluate("new Promise((done) => setTimeout(done))")  # what the answer brings about has happened by then
    expect(page.get_by_text("No files")).to_be_visible()
    expect(page.get_by_text("mine.jsonl")).to_have_count(0)


@pytest.fixture
def upload_at(page):
    """A function that bounds the page's uploads to so many bytes a second."""
    session = page.context.new_cdp_session(page)
    unbound = {"offline": False, "latency": 0, "downloadThroughput": -1}

    def upload_at(bytes_per_s):
        session.send("Network.emulateNetworkConditions", unbound | {"uploadThroughput": bytes_per_s})

    session.send("Network.enable")
    yield upload_at
    session.detach()


def choose(page, tmp_path, content):
    path = tmp_path / "large.jsonl"
    path.write_text(content)
    go(page, "new")
    page.get_by_label("JSONL file").set_input_files(path)
    expect(page.get_by_text("No problems seen.")).to_be_visible()


def test_a_file_that_is_dropped_is_taken(page, user):
    go(page, "new")
    data = page.evaluate_handle(DROPPED, lines(3))
    zone = page.locator(".drop")
    zone.dispatch_event("dragover", {"dataTransfer": data})
    expect(zone).to_have_class("drop over")
    zone.dispatch_event("drop", {"dataTransfer": data})
    expect(zone).to_have_class("drop")
    expect(page.get_by_text(f"{GLM} (3)")).to_be_visible()
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.get_by_role("heading", name="dropped.jsonl", level=1)).to_be_visible()
    (file,) = user.api.get("/v1/files?purpose=batch").json()["data"]
    assert user.api.get(f"/v1/files/{file['id']}/content").content == lines(3).encode()


def test_a_file_that_is_dropped_beside_the_zone_does_not_take_the_page_s_place(page):
    go(page, "new")
    data = page.evaluate_handle(DROPPED, lines(1))
    kept = page.get_by_role("heading", name="New batch").evaluate(
        """(heading, data) => ["dragover", "drop"].map((name) =>
          heading.dispatchEvent(new DragEvent(name, { dataTransfer: data, bubbles: true, cancelable: true })))""",
        data,
    )
    assert kept == [False, False]  # what the browser would do by itself is prevented


def test_the_progress_of_an_upload_moves(page, upload_at, tmp_path):
    choose(page, tmp_path, line("q", "x" * 600_000))
    page.evaluate(WATCH_PROGRESS)
    upload_at(400_000)
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.get_by_role("heading", name="large.jsonl", level=1)).to_be_visible()
    told = page.evaluate("window.told")
    assert told == sorted(told)
    assert len(told) >= 3
    assert max(told) > 50


def test_an_upload_that_is_stopped_leaves_nothing(page, user, upload_at, tmp_path):
    choose(page, tmp_path, line("q", "x" * 600_000))
    upload_at(20_000)
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.get_by_text("Sending: ")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped; nothing was submitted.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    upload_at(-1)
    for route in ("/v1/account/batches", "/v1/files"):
        assert user.api.get(route).json()["data"] == []
    page.get_by_role("button", name="Submit the batch").click()  # it is there to be sent again
    expect(page.get_by_role("heading", name="large.jsonl", level=1)).to_be_visible()


def test_a_proxy_that_does_not_reach_the_server_takes_nothing_away(page, user):
    batch_id = user.submit(chats(2))
    finished(user.api, batch_id)
    page.clock.install()
    page.reload()
    row = page.get_by_role("row").filter(has_text=batch_id)
    expect(row).to_be_visible()
    page.route("**/v1/**", lambda route: route.fulfill(status=502, body="<h1>Bad Gateway</h1>"))
    page.clock.run_for(10_000)
    expect(page.get_by_text(MISSING)).to_be_visible()
    expect(row).to_be_visible()
    page.unroute_all()
    page.clock.run_for(15_000)
    expect(page.get_by_text(MISSING)).to_be_hidden()
    expect(row).to_be_visible()


def test_a_fault_is_told_until_it_is_over(page, user):
    """Though nothing has changed since: the answer after it is no 304."""
    page.clock.install()
    page.reload()
    go(page, "usage")
    quota = page.get_by_text("There is no daily quota for your account.")
    expect(quota).to_be_visible()
    page.route("**/v1/usage*", lambda route: route.fulfill(status=500))
    page.clock.run_for(10_000)
    expect(page.get_by_role("alert")).to_contain_text("The server answered with status 500.")
    page.unroute_all()
    page.clock.run_for(15_000)
    expect(quota).to_be_visible()


def test_a_page_that_nobody_sees_asks_nothing(page, user):
    finished(user.api, user.submit(chats(2)))
    page.clock.install()
    page.reload()
    row = page.get_by_role("row").filter(has_text="Completed")
    expect(row).to_be_visible()
    page.evaluate(SHOW, True)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60_000)
    assert asked == []
    user.submit(chats(1))
    with page.expect_response("**/v1/account/batches?*"):
        page.evaluate(SHOW, False)
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(3)
