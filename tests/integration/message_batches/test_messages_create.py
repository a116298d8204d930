"""Creating Message Batches: what refuses the whole, what fails one request, and what stands before."""

import json

import pytest
from api import chat
from messages_api import BATCHES, VERSION, create, error_of, get, item, lines, params, post, switch


async def test_the_new_batch(api):
    batch = await create(api)
    assert batch.pop("id").startswith("msgbatch_")
    assert batch == {
        "type": "message_batch",
        "processing_status": "in_progress",
        "request_counts": {"processing": 2, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
        "created_at": "2026-11-18T11:06:40Z",
        "expires_at": "2026-11-19T11:06:40Z",
        "ended_at": None,
        "archived_at": None,
        "cancel_initiated_at": None,
        "results_url": None,
    }


@pytest.mark.parametrize("path", [BATCHES, f"/anthropic{BATCHES}", f"{BATCHES}?beta=true"])
@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21"])
async def test_both_prefixes_and_versions(api, path, version):
    batch = await create(api, path=path, version=version)
    assert batch == await get(api, batch) == await get(api, batch, f"/anthropic{BATCHES}")


REFUSED = [
    ({}, "requests: Field required"),
    ({"requests": None}, "requests: Field required"),
    ({"requests": {}}, "requests: expected an array"),
    ({"requests": []}, "requests: must not be empty"),
    ({"requests": [item()], "metadata": {"a": "b"}}, "metadata: Extra inputs are not permitted"),
    ({"requests": [item(), 7]}, "requests.1: expected an object"),
    ({"requests": [{"params": params()}]}, "requests.0.custom_id: Field required"),
    ({"requests": [item() | {"custom_id": 7}]}, "requests.0.custom_id: expected a string"),
    *[
        ({"requests": [item(bad)]}, "requests.0.custom_id: must be 1 to 64 letters, digits, _ or -")
        for bad in ("", "x" * 65, "a b", "a.b", "é", "a\n", "ａ", "٣")
    ],
    ({"requests": [item("a"), item("b"), item("a")]}, "requests.2.custom_id: 'a' is used by an earlier request"),
    ({"requests": [item() | {"method": "POST"}]}, "requests.0.method: Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=range(len(REFUSED)))
async def test_what_refuses_the_whole_batch(api, body, message):
    error = error_of(await post(api, body), 400)
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith(message)
    assert (await api.call("GET", BATCHES)).json()["data"] == []


async def test_ids_of_every_allowed_form(api):
    await create(api, item("x" * 64), item("a"), item("_-09azAZ"))


async def test_members_that_are_null_are_left_out(api):
    answer = await post(api, {"requests": [item() | {"extra": None}], "metadata": None})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"requests":[NaN]}', b"\xef\xbb\xbf{}", b'{"requests":[{"custom_id":"\xff"}]}']
)
async def test_what_is_no_json_object(api, text):
    answer = await api.call("POST", BATCHES, content=text, headers=VERSION)
    assert error_of(answer, 400)["type"] == "invalid_request_error"


async def test_a_member_that_occurs_twice_in_an_item(api):
    text = b'{"requests":[{"custom_id":"a","custom_id":"b","params":{}}]}'
    answer = await api.call("POST", BATCHES, content=text, headers=VERSION)
    assert error_of(answer, 400)["message"] == "requests.0.custom_id: occurs twice"


async def test_limits_of_count_and_size(api):
    api.configure(max_requests=2)
    message = error_of(await post(api, {"requests": [item(str(n)) for n in range(3)]}), 400)["message"]
    assert message == "requests: a batch may hold at most 2 requests"
    api.configure(max_body_bytes=100)
    assert error_of(await post(api, {"requests": [item()]}), 413)["type"] == "request_too_large"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "anthropic-version: the header is required; 2023-06-01 and 2026-10-21 are accepted"),
        ({"anthropic-version": "2023-01-01"}, "anthropic-version: 2023-06-01 and 2026-10-21 are accepted"),
        (
            VERSION | {"anthropic-beta": "message-batches-2024-09-24"},
            "anthropic-beta: betas are not available in a batch",
        ),
        (VERSION | {"anthropic-workspace-id": "w"}, "anthropic-workspace-id: is not available here"),
        (VERSION | {"anthropic-user-profile-id": "u"}, "anthropic-user-profile-id: is not available here"),
        (VERSION | {"idempotency-key": ""}, "Idempotency-Key: "),
    ],
)
async def test_headers_that_refuse_the_batch(api, headers, message):
    error = error_of(await post(api, {"requests": [item()]}, version=None, headers=headers), 400)
    assert error["message"].startswith(message)


FAILED = {
    "unknown model": ({"model": "nope"}, "not_found_error", "Model 'nope' not found"),
    "model of other tiers": ({"model": "internal-only"}, "not_found_error", "Model 'internal-only' not found"),
    "model without messages": ({"model": "qwen3.6-35b"}, "not_found_error", "Model 'qwen3.6-35b' not found"),
    "auto model": ({"model": "auto"}, "not_found_error", "Auto models"),
    "drained model": ({"model": "drained"}, "invalid_request_error", "Model 'drained' is unavailable"),
    "no model": ({"model": None}, "invalid_request_error", "model: "),
    "model of wrong type": ({"model": 3}, "invalid_request_error", "model: expected a string"),
    "no max_tokens": ({"max_tokens": None}, "invalid_request_error", "max_tokens: Field required"),
    "no messages": ({"messages": []}, "invalid_request_error", "messages: must not be empty"),
    "streamed": ({"stream": True}, "invalid_request_error", "stream: "),
    "unknown key": ({"foo": 1}, "invalid_request_error", "foo: Extra inputs are not permitted"),
    "server tool": ({"tools": [{"type": "web_search_20250305"}]}, "invalid_request_error", "tools.0.type: "),
    "not on this route": ({"thinking": {"type": "adaptive"}}, "invalid_request_error", "thinking: "),
}


async def test_a_request_that_is_refused_fails_alone(api):
    items = [item(f"bad-{n}", **changes) for n, (changes, _, _) in enumerate(FAILED.values())]
    batch = await create(api, item("good"), *items)
    assert batch["request_counts"] == {
        "processing": len(items) + 1,
        "succeeded": 0,
        "errored": 0,
        "canceled": 0,
        "expired": 0,
    }
    await api.run(batch["id"], b'{"type":"message"}')
    found = await lines(api, batch)
    assert found[0] == {"custom_id": "good", "result": {"type": "succeeded", "message": {"type": "message"}}}
    for line, (name, (_, kind, message)) in zip(found[1:], FAILED.items(), strict=True):
        error = line["result"]["error"]
        assert (line["result"]["type"], error["type"], error["request_id"]) == ("errored", "error", None), name
        assert error["error"]["type"] == kind, name
        assert error["error"]["message"].startswith(message), (name, error)
    counts = (await get(api, batch))["request_counts"]
    assert counts == {"processing": 0, "succeeded": 1, "errored": len(items), "canceled": 0, "expired": 0}


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"null", "params: Field required"),
        (b"[1]", "params: expected an object"),
        (
            b'{"model":"claude","model":"claude","max_tokens":1,"messages":[{"role":"user","content":"x"}]}',
            "model: occurs twice",
        ),
    ],
)
async def test_params_that_are_no_request(api, sent, message):
    text = b'{"requests":[{"custom_id":"a","params":%b}]}' % sent
    batch = (await api.call("POST", BATCHES, content=text, headers=VERSION)).json()
    assert batch["processing_status"] == "ended"
    (line,) = await lines(api, batch)
    assert line["result"]["error"]["error"] == {"type": "invalid_request_error", "message": message}


async def test_an_item_without_params(api):
    (line,) = await lines(api, await create(api, {"custom_id": "a"}))
    assert line["result"]["error"]["error"]["message"] == "params: Field required"


async def test_the_versions_rules_are_the_batchs(api):
    sampled = item("a", temperature=1)
    assert (await create(api, sampled))["processing_status"] == "in_progress"
    (line,) = await lines(api, await create(api, sampled, version="2026-10-21"))
    assert line["result"]["error"]["error"]["message"] == "temperature: Extra inputs are not permitted"


async def test_a_batch_in_which_nothing_can_run_has_ended_at_once(api):
    batch = await create(api, item(model="nope"))
    assert batch["processing_status"] == "ended"
    assert batch["request_counts"]["errored"] == 1
    assert batch["ended_at"] == batch["created_at"]


async def test_an_alias_is_pinned_and_bodies_are_stored_as_written(api):
    text = b'{"requests":[{"custom_id":"a","params":{ "model":"claude-latest","max_tokens":1,"temperature":0.50,"messages":[{"role":"user","content":"\\ud800"}] }}]}'
    batch = (await api.call("POST", BATCHES, content=text, headers=VERSION)).json()
    (claimed,) = await api.claim(batch["id"])
    assert claimed.model == "claude"
    assert claimed.body == text.split(b'"params":')[1].removesuffix(b"}]}")
    assert json.loads(claimed.options or "") == {"version": "2023-06-01"}


async def test_off(api):
    first = {"requests": [item()]}
    key = {"idempotency-key": "run-1"}
    batch = (await post(api, first, headers=key)).json()
    switch(api, on=False)
    error = error_of(await post(api, {"requests": [item()]}), 403)
    assert error == {"type": "permission_error", "message": "Message Batches are not enabled"}
    assert (await post(api, first, headers=key)).json() == batch, "a replay creates nothing"
    await api.run(batch["id"])
    assert (await lines(api, batch))[0]["result"]["type"] == "succeeded"
    assert (await api.call("POST", f"{BATCHES}/{batch['id']}/cancel")).status_code == 200
    assert (await api.call("DELETE", f"{BATCHES}/{batch['id']}")).status_code == 200


async def test_batches_off_altogether(api):
    api.configure(enabled=False)
    for method, path in [
        ("POST", BATCHES),
        ("GET", BATCHES),
        ("GET", f"{BATCHES}/msgbatch_x"),
        ("DELETE", f"{BATCHES}/x"),
    ]:
        error = error_of(await api.call(method, path), 404)
        assert error == {"type": "not_found_error", "message": "Batch inference is unavailable"}


async def test_access_quota_and_unfinished_work(api):
    bob = await api.owner("bob", "free")
    assert error_of(await post(api, {"requests": [item()]}, by=bob), 403)["type"] == "permission_error"
    api.configure(max_unfinished_batches=1)
    await create(api)
    answer = await post(api, {"requests": [item()]})
    assert error_of(answer, 429)["type"] == "rate_limit_error"
    assert answer.headers["x-should-retry"] == "false"


async def test_requests_that_cannot_run_are_not_unfinished_work(api):
    api.configure(max_unfinished_requests=1)
    await create(api, item("a"), item("b", model="nope"))


async def test_idempotency(api):
    body, key = {"requests": [item()]}, {"idempotency-key": "run 1"}
    batch = (await post(api, body, headers=key)).json()
    assert (await post(api, body, headers=key, path=f"/anthropic{BATCHES}")).json() == batch
    answer = await post(api, {"requests": [item("other")]}, headers=key)
    assert error_of(answer, 409)["type"] == "conflict_error"
    assert answer.headers["x-should-retry"] == "false"
    other_api = await api.call("POST", "/v1/batches", json={"requests": [chat()]}, headers=key)
    assert other_api.status_code == 409
    await api.run(batch["id"])
    await api.call("DELETE", f"{BATCHES}/{batch['id']}")
    assert error_of(await post(api, body, headers=key), 410)["type"] == "invalid_request_error"
