"""Answers that are lost, or come late: nothing is done twice, and nothing stands where something else was asked for."""

import pytest
from browsing import go
from playwright.sync_api import expect
from stands import lines


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
    expect(page.get_by_role("heading", name="questions.jsonl")).to_be_visible()
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
