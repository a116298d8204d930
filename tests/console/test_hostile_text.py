"""Text from outside is shown as it is: it never becomes markup, whichever field it comes by.

Each payload would do something that is noticed: run a script, or break the page's policy, which the browser reports.
"""

import json

import pytest
from browsing import go
from daemons import chat, finished
from playwright.sync_api import expect
from stands import GLM, MESSAGES, line, message

RUNS = "console.error('executed')"
PAYLOADS = [
    f'<img src=x onerror="{RUNS}">',
    f"<script>{RUNS}</script>",
    f'"><svg onload="{RUNS}">',
    f"'><iframe srcdoc='<script>parent.{RUNS}</script>'></iframe>",
    f'<a href="javascript:{RUNS}">x</a><style>*{{display:none}}</style>',
    f"</title></textarea></script><script>{RUNS}</script>{{{{constructor.constructor('{RUNS}')()}}}}\u202e\u2028",
]
ALL = " ".join(PAYLOADS)
LINK = f"javascript:{RUNS}"


FOREIGN = "main :is(img, script, iframe, style, object, a[href^='javascript'])"


@pytest.fixture(autouse=True)
def _nothing_foreign(window, stand):
    """After each test: the page has no element that it would not make itself."""
    stand.rules()
    yield
    for page in window.context.pages:
        assert page.locator(FOREIGN).count() == 0


def shows(page, text, *, times=1):
    """The text is on the page letter by letter, at least so often."""
    page.wait_for_function(
        "([text, times]) => document.body.textContent.split(text).length - 1 >= times", arg=[text, times]
    )


def test_custom_ids_and_metadata(page, user):
    metadata = {f"k{number} {payload}"[:64]: payload for number, payload in enumerate(PAYLOADS)}
    requests = [chat(f"{number} {payload}"[:64], payload, GLM) for number, payload in enumerate(PAYLOADS)]
    batch_id = user.submit(requests, metadata=metadata)
    finished(user.api, batch_id)
    key, value = next(iter(metadata.items()))
    shows(page, f"{key}: {value}")
    go(page, f"batches/{batch_id}")
    for key, value in metadata.items():
        shows(page, key + value)
    for request in requests:
        shows(page, request["custom_id"])


def test_prompts_and_answers(page, user):
    batch_id = user.submit([chat("q", ALL, GLM) | {}])
    finished(user.api, batch_id)
    go(page, f"batches/{batch_id}")
    page.get_by_role("button", name="q", exact=True).click()
    shown = json.dumps(ALL, ensure_ascii=False)[1:-1]
    expect(page.get_by_role("region", name="Request", exact=True)).to_contain_text(shown.split("\u202e")[0])
    answer = page.get_by_role("region", name="Answer", exact=True)
    expect(answer).to_contain_text(json.dumps(PAYLOADS[0])[1:-1])  # the model answers with what it was asked


@pytest.mark.parametrize("status", [400, 500])
def test_error_texts_of_the_model_s_server(page, stand, user, status):
    error = json.dumps({"error": {"message": ALL, "type": ALL, "code": PAYLOADS[0], "param": PAYLOADS[1]}})
    action = {"status": status, "body": error, "headers": {"x-request-id": PAYLOADS[0]}}
    stand.rules({"match": "fail thus", "action": action})
    batch_id = user.submit([chat("q", "fail thus", GLM), chat("p", "fine", GLM)])
    finished(user.api, batch_id)
    go(page, f"batches/{batch_id}")
    page.get_by_role("button", name="q", exact=True).click()
    if status == 400:  # texts of 5xx are not passed on
        shows(page, PAYLOADS[0], times=2)
    else:
        expect(page.get_by_role("region", name="One request")).to_contain_text("upstream_error")


def test_answers_that_are_no_answers(page, stand, user):
    stand.rules({"match": "answer thus", "action": {"body": ALL}})
    batch_id = user.submit([chat("q", "answer thus", GLM)])
    finished(user.api, batch_id)
    go(page, f"batches/{batch_id}")
    page.get_by_role("button", name="q", exact=True).click()
    expect(page.get_by_role("region", name="One request")).to_contain_text("upstream_error")


def test_file_names_and_what_is_wrong_in_files(page, stand, user, tmp_path):
    name = f"{PAYLOADS[1]}.jsonl".replace("/", "\\")
    content = line(PAYLOADS[0], "x") * 2 + line("a", "x", model=PAYLOADS[0]) + ALL.replace("\u2028", "") + "\n"
    path = tmp_path / name
    path.write_text(content)
    go(page, "new")
    page.get_by_label("JSONL file").set_input_files(path)
    shows(page, name)
    shows(page, f"{PAYLOADS[0]} (1)")  # the model
    shows(page, json.dumps(PAYLOADS[0]))  # the custom id that occurs twice
    page.get_by_label("Description").fill(PAYLOADS[2])
    page.get_by_role("button", name="Submit the batch").click()
    expect(page.get_by_role("heading", name="problems in the input")).to_be_visible()
    shows(page, name)
    shows(page, PAYLOADS[2])
    shows(page, f"Model '{PAYLOADS[0]}' not found")
    go(page, "files")
    shows(page, name)
    page.get_by_role("button", name="Delete").first.click()
    expect(page.get_by_role("dialog")).to_contain_text(name)


def test_message_batches(page, user):
    beta = {"messages": [{"role": "user", "content": ALL}], "model": ALL}
    batch_id = user.submit_messages([message("m-1", ALL), {"custom_id": "m-2", "params": beta}])
    go(page, f"batches/{batch_id}")
    expect(page.get_by_role("region", name="Summary")).to_contain_text("Completed")
    page.get_by_role("button", name="m-2").click()
    shows(page, PAYLOADS[0].replace('"', '\\"'))
    assert user.api.get(f"/v1/messages/batches/{batch_id}", headers=MESSAGES).status_code == 200


def test_the_webhook_s_address_and_what_it_answers(page, stand, user):
    stand.receiver.answer = (500, ALL.replace("\u202e", "").replace("\u2028", ""))
    url = f"{stand.receiver.url}?{PAYLOADS[0].replace(' ', '%20')}&{LINK}"
    go(page, "webhook")
    page.get_by_label("Address").fill(url)
    page.get_by_role("button", name="Set the webhook").click()
    page.get_by_role("dialog").get_by_role("button", name="I have kept it").click()
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("The test did not arrive: status 500.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Address")).to_have_value(user.api.get("/v1/batch_webhook").json()["url"])
    page.get_by_label("Address").fill(LINK)
    page.get_by_role("button", name="Save the address").click()
    expect(page.locator(".notice.bad")).to_be_visible()


def test_what_is_typed_and_what_stands_in_the_address(page):
    page.get_by_label("Text").fill(ALL[:150])
    expect(page.get_by_text("No batch is like this")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Text")).to_have_value(ALL[:150])
    go(page, f"batches?model={PAYLOADS[0]}&status={PAYLOADS[1]}&kind={PAYLOADS[2]}".replace('"', "%22"))
    expect(page.get_by_role("main")).to_contain_text("status")
    go(page, f"batches/{PAYLOADS[0]}")
    expect(page.get_by_text("This batch is not there")).to_be_visible()
    go(page, PAYLOADS[1].replace("/", "%2F"))
    expect(page.get_by_text("There is nothing here")).to_be_visible()


def test_names_of_accounts(window, stand):
    """Whoever is shown them: the account itself, and an operator."""
    mallory = stand.account(ALL[:190])
    finished(mallory.api, mallory.submit([chat("q", "x", GLM)]))  # so that something was spent
    window.sign_in(stand, mallory)
    page = window.open(stand)
    shows(page, mallory.name)
    window.context.clear_cookies()
    window.sign_in(stand, stand.admin)
    page.reload()
    for view in ("operator/spending", "operator/accounts", f"operator/accounts/{mallory.id}"):
        go(page, view)
        shows(page, mallory.name)
    for button in ("Change the quota", "Move to a tier", "Suspend", "Delete"):
        page.get_by_role("button", name=button, exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("heading")).to_contain_text(mallory.name[:60])
        dialog.get_by_role("button").last.click()
        expect(dialog).to_have_count(0)
