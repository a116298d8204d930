"""Batches, from the file that is dropped to the results that are downloaded."""

import json
import re
import time

import pytest
from browsing import go
from daemons import chat, finished
from playwright.sync_api import expect
from stands import GLM, QWEN, chats, line, lines, message

from fibatchd.web.account.waiting import Reason

TO_THE_END = """
amount => {
  window.scrollTo(0, document.body.scrollHeight)
  return document.querySelectorAll("tbody tr").length === amount
}
"""


@pytest.fixture(autouse=True)
def _rules(stand):
    stand.rules()


def choose(page, tmp_path, content, name="questions.jsonl"):
    """Give a file to the form of a new batch."""
    path = tmp_path / name
    path.write_text(content)
    go(page, "new")
    page.get_by_label("JSONL file").set_input_files(path)


def row_of(page, text):
    return page.get_by_role("row").filter(has_text=text)


def say_yes(page, verb):
    page.get_by_role("dialog").get_by_role("button", name=verb).click()


def test_a_file_is_submitted_and_its_progress_moves_by_itself(page, stand, user, tmp_path):
    page.evaluate("window.notReloaded = true")
    choose(page, tmp_path, lines(20) + lines(20, "please hold").replace('"q-', '"h-'))
    expect(page.get_by_text("No problems seen.")).to_be_visible()
    expect(page.get_by_text(f"{GLM} (40)")).to_be_visible()
    page.get_by_label("Description").fill("Nightly")
    page.get_by_role("button", name="Submit the batch").click()

    expect(page.get_by_role("heading", name="questions.jsonl", level=1)).to_be_visible()
    progress = page.get_by_role("region", name="Summary").get_by_role("img")
    expect(progress).to_have_accessible_name(re.compile("20 succeeded, 16 running, 4 queued"))
    go(page, "batches")
    row = row_of(page, "questions.jsonl")
    expect(row).to_contain_text("description: Nightly")
    expect(row).to_contain_text("20 of 40")
    stand.rules({"match": "please hold", "action": {}})
    expect(row).to_contain_text("40 of 40")
    expect(row).to_contain_text("Completed")
    (batch,) = user.api.get("/v1/account/batches").json()["data"]
    assert batch["metadata"] == {"description": "Nightly"}
    assert page.evaluate("window.notReloaded")


def test_a_row_tells_all_of_a_batch(page, stand, user):
    stand.rules({"match": "break off", "action": {"close": "half"}})
    requests = [*chats(3), chat("bad", "please fail", GLM), chat("lost", "break off", GLM)]
    ended = user.submit(requests, metadata={"run": "17"})
    finished(user.api, ended)
    held = user.submit(chats(20, "please hold"))
    page.reload()
    row = row_of(page, ended)
    expect(row.get_by_role("img")).to_have_accessible_name("Of 5 requests: 3 succeeded, 2 failed")
    (item,) = [each for each in user.api.get("/v1/account/batches").json()["data"] if each["id"] == ended]
    assert (item["tokens"]["total"], item["cost_unknown_attempts"]) == (45, 2)
    for told in (
        f"Inline · {GLM}",
        "run: 17",
        "Completed",
        "5 of 5",
        "2 failed",
        "45 tokens",
        "+ 2 unknown",
        "just now",
    ):
        expect(row).to_contain_text(told)
    expect(row).to_contain_text(f"${item['cost_usd']:.6f}".rstrip("0"))
    row = row_of(page, held)
    expect(row.get_by_role("img")).to_have_accessible_name("Of 20 requests: 16 running, 4 queued")
    expect(row).to_contain_text("must start in 24 hr.")


def test_why_a_batch_waits_is_told_in_words(page, user):
    """Whatever the reason: none is shown by its name alone."""
    finished(user.api, user.submit(chats(1)))
    page_of_list = user.api.get("/v1/account/batches").json()
    (item,) = page_of_list["data"]
    waiting = [
        item | {"id": f"batch_{reason:032x}", "ended_at": None, "status": "in_progress"}
        | {"waiting": {"reason": reason.name.lower(), "until": item["created_at"] + 7200 + 5}}
        for reason in reversed(Reason)
    ]  # fmt: skip
    answer = json.dumps(page_of_list | {"data": waiting})
    page.route("**/v1/account/batches?*", lambda route: route.fulfill(body=answer))
    page.reload()
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(1 + len(Reason))
    told = dict(zip((each["waiting"]["reason"] for each in waiting), rows.all_inner_texts()[1:], strict=True))
    page.unroute_all()
    assert [reason for reason, text in told.items() if f"({reason})" in text] == []
    for reason, words in {
        "quota": "Your daily quota is used up; it goes on in 2 hr.",
        "access": "Your account may not run batches",
        "model_down": "No server of the model can be reached",
        "interactive": "It gives way to interactive requests",
    }.items():
        assert words in told[reason]


def test_its_course_and_when_it_ends(page, stand, user):
    stand.rules({"match": "Say", "action": {"delay": 1.0}})
    batch_id = user.submit(chats(64))
    finished(user.api, batch_id)
    go(page, f"batches/{batch_id}")
    course = page.get_by_role("region", name="Progress over time")
    expect(course.get_by_role("img").nth(0)).to_have_accessible_name(re.compile("64 succeeded and 0 failed in all"))
    expect(course.get_by_role("img").nth(1)).to_have_accessible_name(re.compile("half take less than [12]"))
    expect(course).not_to_contain_text("it ends")
    course.get_by_text("Figures").first.click()
    figures = course.get_by_role("table", name="Requests that ended").get_by_role("row").all_inner_texts()[1:]
    assert sum(int(figure.split("\t")[1]) for figure in figures) == 64

    found = user.api.get(f"/v1/account/batches/{batch_id}/progress").json()
    late = {"ends_at": time.time() + 7205, "in_time": False, "per_minute": 480.25, "basis_s": 300}
    page.route("**/progress?*", lambda route: route.fulfill(body=json.dumps(found | {"forecast": late})))
    page.reload()
    expect(course).to_contain_text("At 480.3 requests a minute, as in the last 5 min, it ends in 2 hr., about ")
    expect(course).to_contain_text("That is after its time to start is over")
    page.unroute_all()


def test_problems_are_told_by_line_before_and_after_the_upload(page, tmp_path):
    content = lines(2) + "{broken\n" + line("q-0", "again") + line("q-9", "x", "no-such-model")
    choose(page, tmp_path, content)
    seen = page.get_by_role("listitem").filter(has_text="Line ")
    expect(seen).to_have_text(["Line 3Not valid JSON", 'Line 4custom_id "q-0" occurs twice'])
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.get_by_role("heading", name="problems in the input")).to_be_visible()
    found = page.get_by_role("listitem").filter(has_text=re.compile("^Line "))
    expect(found.filter(has_text="Line 3")).to_have_count(1)
    expect(found.filter(has_text="Line 5")).to_contain_text("model")
    expect(page.get_by_text("Nothing of it has run.")).to_be_visible()


def test_a_batch_is_cancelled(page, user):
    batch_id = user.submit(chats(20, "please hold"))
    go(page, f"batches/{batch_id}")
    shares = page.get_by_role("region", name="Summary").get_by_role("img")
    expect(shares).to_have_accessible_name(re.compile("16 running"))
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel this batch?")
    expect(dialog).to_contain_text("4 requests that have not started will never run.")
    dialog.get_by_role("button", name="Keep it as it is").click()
    assert user.api.get(f"/v1/batches/{batch_id}").json()["status"] == "in_progress"
    page.get_by_role("button", name="Cancel").click()
    say_yes(page, "Cancel the batch")
    expect(page.get_by_text("The batch is being cancelled.")).to_be_visible()
    expect(page.get_by_role("list", name="Timeline")).to_contain_text("Cancelling")
    assert user.api.get(f"/v1/batches/{batch_id}").json()["status"] == "cancelling"


def test_the_focus_stays_while_the_batch_moves_on(page, stand, user):
    batch_id = user.submit(chats(20, "please hold"))
    go(page, f"batches/{batch_id}")
    shares = page.get_by_role("region", name="Summary").get_by_role("img")
    expect(shares).to_have_accessible_name(re.compile("16 running"))
    page.get_by_role("button", name="Cancel").focus()
    stand.rules({"match": "please hold 1", "action": {"hold": True}}, {"match": "please hold", "action": {}})
    expect(shares).to_have_accessible_name(re.compile("16 succeeded, 4 running"))
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    stand.rules({"match": "please hold", "action": {}})
    expect(shares).to_have_accessible_name(re.compile("20 succeeded"))  # behind the dialog, whose button is gone now
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name=batch_id)).to_be_focused()


def test_a_batch_is_deleted(page, user):
    batch_id = user.submit(chats(2))
    finished(user.api, batch_id)
    go(page, f"batches/{batch_id}")
    page.get_by_role("button", name="Delete").click()
    say_yes(page, "Keep it as it is")
    page.get_by_role("button", name="Delete").click()
    say_yes(page, "Delete the batch")
    expect(page.get_by_text("No batches yet")).to_be_visible()
    assert user.api.get(f"/v1/batches/{batch_id}").status_code == 404


def downloaded(page, name):
    with page.expect_download() as download:
        page.get_by_role("link", name=name, exact=True).click()
    return download.value.path().read_bytes()


def test_downloads_are_the_api_s_bytes_in_all_three_forms(page, user):
    inline = user.submit(chats(3, "Zürich ☃"))
    batch = finished(user.api, inline)
    go(page, f"batches/{inline}")
    expected = user.api.get(f"/v1/batches/{inline}/output.jsonl").content
    assert batch["status"] == "completed"
    assert expected.count(b"\n") == 3
    assert downloaded(page, "Download results") == expected

    from_file = user.submit_file(lines(2) + line("f-1", "please fail"), "half.jsonl")
    batch = finished(user.api, from_file)
    go(page, f"batches/{from_file}")
    assert downloaded(page, "All results") == user.api.get(f"/v1/batches/{from_file}/output.jsonl").content
    for name, file in (("Output file", batch["output_file_id"]), ("Error file", batch["error_file_id"])):
        expected = user.api.get(f"/v1/files/{file}/content").content
        assert downloaded(page, name) == expected
        assert expected

    messages = user.submit_messages([message("m-1", "Hello"), message("m-2", "please fail")])
    go(page, f"batches/{messages}")
    results = downloaded(page, "Download results")
    assert (
        results
        == user.api.get(f"/v1/messages/batches/{messages}/results", headers={"anthropic-version": "2023-06-01"}).content
    )
    assert results.count(b"\n") == 2


def test_the_failed_ones_run_again(page, stand, user):
    batch_id = user.submit([*chats(3), *[c | {"custom_id": f"f-{n}"} for n, c in enumerate(chats(2, "please fail"))]])
    finished(user.api, batch_id)
    go(page, f"batches/{batch_id}")
    errors = page.get_by_role("table", name="Errors by code").get_by_role("row")
    expect(errors.nth(1)).to_contain_text(re.compile("invalid_request.*2$"))
    stand.rules({"match": "please fail", "action": {}})
    page.get_by_role("button", name="Run the failed ones again").click()
    expect(page.get_by_role("dialog")).to_contain_text("2 requests that did not succeed will run again")
    say_yes(page, "Run the failed ones again")
    expect(page.get_by_role("heading", level=1)).not_to_have_text(batch_id)
    expect(page.get_by_role("link", name=batch_id)).to_be_visible()  # "Runs again"
    expect(page.get_by_role("region", name="Summary").get_by_role("img")).to_have_accessible_name(
        re.compile("2 succeeded")
    )


def test_one_request_in_full(page, user):
    batch_id = user.submit([*chats(2), *[chats(1, "please fail")[0] | {"custom_id": "bad"}]])
    finished(user.api, batch_id)
    go(page, f"batches/{batch_id}")
    requests = page.get_by_role("region", name="Requests", exact=True)
    requests.get_by_label("Outcome").select_option("failed")
    expect(requests.get_by_role("row")).to_have_count(2)
    requests.get_by_role("button", name="bad").click()
    expect(page.get_by_role("region", name="Request", exact=True)).to_contain_text('"content": "please fail 0"')
    requests.get_by_label("Outcome").select_option("")
    requests.get_by_role("button", name="q-1").click()
    expect(page.get_by_role("region", name="Answer", exact=True)).to_contain_text('"content": "Say 1 #')
    requests.get_by_role("button", name="Close").click()
    expect(requests.get_by_role("button", name="q-1")).to_be_focused()


def test_requests_are_turned_page_by_page(page, user):
    batch_id = user.submit(chats(120))
    finished(user.api, batch_id)
    go(page, f"batches/{batch_id}")
    requests = page.get_by_role("region", name="Requests", exact=True)
    expect(requests.get_by_text("1 to 50", exact=True)).to_be_visible()
    expect(requests.get_by_role("button", name="Previous")).to_have_attribute("aria-disabled", "true")
    requests.get_by_role("button", name="Next").click()
    expect(requests.get_by_text("51 to 100", exact=True)).to_be_visible()
    requests.get_by_role("button", name="Next").click()
    expect(requests.get_by_text("101 to 120", exact=True)).to_be_visible()
    expect(requests.get_by_role("row")).to_have_count(21)
    expect(requests.get_by_role("button", name="Next")).to_have_attribute("aria-disabled", "true")


def test_the_list_is_filtered_and_has_no_end(page, user):
    for number in range(58):
        user.submit(chats(1), metadata={"run": f"number {number}"})
    other = user.submit(chats(1, model=QWEN), metadata={"run": "the other one"})
    failed = user.submit_file("{broken\n", "broken.jsonl")
    messages = user.submit_messages([message("m", "Hello")])
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows.filter(has_text="Message Batch")).to_have_count(1)
    page.wait_for_function(TO_THE_END, arg=61)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()

    filters = page.get_by_role("search")
    filters.get_by_label("Text").fill("THE OTHER")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text(other)
    filters.get_by_label("Text").fill("")
    filters.get_by_label("Status").select_option("Failed")
    expect(rows.last).to_contain_text("broken.jsonl")
    filters.get_by_label("Status").select_option("Any")
    filters.get_by_label("Model").select_option(QWEN)
    expect(rows.last).to_contain_text(other)
    filters.get_by_label("Kind").select_option("Message Batch")
    expect(page.get_by_text("No batch is like this")).to_be_visible()
    filters.get_by_label("Model").select_option("Any")
    expect(rows.last).to_contain_text(messages)
    page.reload()  # filters stand in the address
    expect(rows).to_have_count(2)
    expect(filters.get_by_label("Kind")).to_have_value("message_batches")
    assert failed


def test_files(page, user):
    user.submit_file(lines(2), "questions.jsonl")
    go(page, "files")
    expect(page.get_by_text("questions.jsonl").first).to_be_visible()
    page.get_by_role("link", name="New batch from questions.jsonl").click()
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.get_by_role("heading", name="questions.jsonl", level=1)).to_be_visible()
    go(page, "files")
    page.get_by_label("Kind").select_option("Input files")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="Delete questions.jsonl").click()
    say_yes(page, "Delete the file")
    expect(page.get_by_text("The file was deleted.")).to_be_visible()
    assert [file for file in user.api.get("/v1/files").json()["data"] if file["purpose"] == "batch"] == []


def test_usage(window, stand):
    ada = stand.account("ada", "pro")
    for requests in (chats(3), chats(2, model=QWEN)):
        finished(ada.api, ada.submit(requests))
    window.sign_in(stand, ada)
    page = window.open(stand, "usage")
    quota = page.get_by_role("img", name="Daily quota")
    expect(quota).to_have_accessible_name(re.compile(r"^Daily quota: \$0\.0000\d+ of \$20\.00 \(0%\) used$"))
    today = ada.api.get("/v1/usage").json()["today"]
    for model in today["models"]:
        row = page.get_by_role("table", name="By model").get_by_role("row").filter(has_text=model["model"])
        expect(row).to_contain_text(f"${model['cost_usd']:.6f}")
        share = 100 * model["cost_usd"] / today["cost_usd"]
        expect(row.get_by_role("img")).to_have_accessible_name(f"{share:.0f}% of the cost for {model['model']}")
    days = page.get_by_role("table", name="Days, today first").get_by_role("row")
    expect(days).to_have_count(1 + 30)
    cost = f"${today['cost_usd']:.6f}"
    expect(days.nth(1).get_by_role("cell")).to_have_text(["", cost, "5", "50", "25"])


def test_nothing_yet(page):
    for view, told in {
        "batches": "No batches yet",
        "files": "No files",
        "usage": "Nothing was spent",
        "webhook": "Nothing was delivered yet",
    }.items():
        go(page, view)
        expect(page.get_by_role("main").get_by_text(told).first).to_be_visible()
