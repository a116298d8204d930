"""A server that has no extension but the console: what it does not do is not offered, and a batch is made all the same."""

import json

import pytest
import stands
from browsing import go
from daemons import chat
from playwright.sync_api import expect
from stands import GLM, line, lines


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    with stands.stand(tmp_path_factory.mktemp("bare"), stands.BARE) as stand:
        yield stand


def choose(page, tmp_path, content):
    path = tmp_path / "questions.jsonl"
    path.write_text(content)
    go(page, "new")
    page.get_by_label("JSONL file").set_input_files(path)


def test_what_is_switched_off_is_absent(page):
    expect(page.get_by_text("No batches yet")).to_be_visible()
    expect(page.get_by_role("navigation", name="Views").get_by_role("link")).to_have_text(["Batches", "Usage"])
    expect(page.get_by_role("link", name="Webhook")).to_have_count(0)
    for view in ("webhook", "files", "constructor"):
        go(page, view)
        expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()


def test_the_lines_of_a_file_become_an_inline_batch(page, user, tmp_path):
    choose(page, tmp_path, lines(2) + json.dumps(chat("long", "x", GLM, seed=12345678901234567)))
    expect(page.get_by_text("No problems seen.")).to_be_visible()
    expect(page.get_by_label("Endpoint")).to_have_count(0)
    page.get_by_label("Description").fill("by hand")
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.get_by_role("region", name="Summary")).to_contain_text("3 of 3")
    (batch,) = user.api.get("/v1/account/batches").json()["data"]
    assert (batch["kind"], batch["status"], batch["metadata"]) == ("inline", "completed", {"description": "by hand"})
    page.get_by_role("button", name="long").click()
    expect(page.get_by_role("region", name="Request", exact=True)).to_contain_text('"seed": 12345678901234567')


def test_what_the_server_refuses_is_told(page, user, tmp_path):
    choose(page, tmp_path, lines(2) + line("q-9", "x", "no-such-model"))
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.locator(".notice.bad")).to_contain_text("no-such-model")
    assert user.api.get("/v1/account/batches").json()["data"] == []
