"""A Message Batch's life as its owner sees it: progress, results to the byte, cancel, delete, lists, other owners."""

import pytest
from api import failure, success
from messages_api import BATCHES, create, error_of, get, item, lines

from fibatchd.store import ending

ANSWER = '{ "id":"msg_1", "model":"claude", "content":[{"type":"text","text":"a\u2028b\u0085c"}], "n":1.50,\n "s":"\\ud800" }'


def counts(**changes):
    return {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0} | changes


async def test_counts_stay_until_the_batch_has_ended(stored):
    batch = await create(stored, item("a"), item("b"))
    first, second = await stored.claim(batch["id"])
    await stored.end(success(first))
    shown = await get(stored, batch)
    assert (shown["processing_status"], shown["request_counts"]) == ("in_progress", counts(processing=2))
    assert shown["results_url"] is None
    error = error_of(await stored.call("GET", f"{BATCHES}/{batch['id']}/results"), 400)
    assert error["message"] == "The batch has not ended; it can be read once it has"
    error = error_of(await stored.call("DELETE", f"{BATCHES}/{batch['id']}"), 400)
    assert error["message"] == "The batch has not ended; it can be deleted once it has"
    stored.clock.advance(90)
    await stored.end(success(second))
    shown = await get(stored, batch)
    assert (shown["processing_status"], shown["request_counts"]) == ("ended", counts(succeeded=2))
    assert (shown["ended_at"], shown["cancel_initiated_at"]) == ("2026-11-18T11:08:10Z", None)


async def test_the_exact_lines_of_a_mixed_batch(stored):
    batch = await create(stored, item("ok"), item("check", foo=1), item("upstream"), item("retried"), item("never"))
    ok, upstream, retried = await stored.claim(batch["id"], 3)
    await stored.call("POST", f"{BATCHES}/{batch['id']}/cancel")
    refused = failure(upstream, "rate_limited", "The model's server is limiting requests", 429)
    again = failure(retried, "timeout", "late", 504, retry_in=5.0)
    await stored.end(success(ok, ANSWER.encode()), refused, again)
    answer = await stored.call("GET", f"{BATCHES}/{batch['id']}/results")
    assert answer.headers["content-type"] == "application/x-jsonl"
    assert answer.text.split("\n") == [
        '{"custom_id":"ok","result":{"type":"succeeded","message":{ "id":"msg_1", "model":"claude", '
        '"content":[{"type":"text","text":"a\\u2028b\\u0085c"}], "n":1.50,  "s":"\\ud800" }}}',
        '{"custom_id":"check","result":{"type":"errored","error":{"type":"error","error":{"type":"invalid_request_error",'
        '"message":"foo: Extra inputs are not permitted"},"request_id":null}}}',
        '{"custom_id":"upstream","result":{"type":"errored","error":{"type":"error","error":{"type":"rate_limit_error",'
        f'"message":"The model\'s server is limiting requests"}},"request_id":"{refused.request_id}"}}}}}}',
        '{"custom_id":"retried","result":{"type":"canceled"}}',
        '{"custom_id":"never","result":{"type":"canceled"}}',
        "",
    ]
    shown = await get(stored, batch)
    assert shown["request_counts"] == counts(succeeded=1, errored=2, canceled=2)


async def test_an_expired_batch(stored):
    batch = await create(stored, item("ran"), item("never"))
    (ran,) = await stored.claim(batch["id"], 1)
    stored.clock.advance(24 * 3600)
    await stored.context.store.write(ending.expire, batch["id"], stored.context.policy)
    assert (await get(stored, batch))["processing_status"] == "in_progress"
    await stored.end(success(ran, b'{"content":[]}'))
    assert (await get(stored, batch))["request_counts"] == counts(succeeded=1, expired=1)
    assert await lines(stored, batch) == [
        {"custom_id": "ran", "result": {"type": "succeeded", "message": {"content": []}}},
        {"custom_id": "never", "result": {"type": "expired"}},
    ]


async def test_a_batch_whose_owner_is_gone(stored):
    batch = await create(stored, item("never"))
    why = "The API key that created the batch was revoked"
    await stored.context.store.write(ending.fail, batch["id"], "owner_unauthorized", why, stored.context.policy)
    (line,) = await lines(stored, batch)
    error = line["result"]["error"]["error"]
    assert error == {"type": "authentication_error", "message": f"The batch failed before the request ran: {why}"}
    assert (await get(stored, batch))["request_counts"] == counts(errored=1)


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("invalid_request", 422, "invalid_request_error"),
        ("forbidden", 403, "permission_error"),
        ("model_not_found", 404, "not_found_error"),
        ("timeout", 504, "timeout_error"),
        ("service_unavailable", 503, "overloaded_error"),
        ("upstream_error", 502, "api_error"),
        ("result_too_large", None, "api_error"),
    ],
)
async def test_errors_of_upstreams(api, code, status, kind):
    batch = await create(api, item())
    (claimed,) = await api.claim(batch["id"])
    ended = failure(claimed, code, "why", status)
    await api.end(ended)
    (line,) = await lines(api, batch)
    error = {"type": "error", "error": {"type": kind, "message": "why"}, "request_id": ended.request_id}
    assert line == {"custom_id": "q-1", "result": {"type": "errored", "error": error}}


async def test_cancelling(stored):
    batch = await create(stored, item("a"), item("b"))
    (running,) = await stored.claim(batch["id"], 1)
    shown = (await stored.call("POST", f"/anthropic{BATCHES}/{batch['id']}/cancel")).json()
    assert (shown["processing_status"], shown["request_counts"]) == ("canceling", counts(processing=2))
    assert shown["cancel_initiated_at"] == "2026-11-18T11:06:40Z"
    assert (await stored.call("POST", f"{BATCHES}/{batch['id']}/cancel")).json() == shown
    await stored.end(success(running))
    shown = await get(stored, batch)
    assert (shown["processing_status"], shown["request_counts"]) == ("ended", counts(succeeded=1, canceled=1))
    assert (await stored.call("POST", f"{BATCHES}/{batch['id']}/cancel")).json() == shown


async def test_cancelling_where_nothing_runs_ends_at_once(api):
    batch = await create(api)
    shown = (await api.call("POST", f"{BATCHES}/{batch['id']}/cancel")).json()
    assert (shown["processing_status"], shown["request_counts"]) == ("ended", counts(canceled=2))


async def test_deleting(stored):
    batch = await create(stored)
    await stored.run(batch["id"])
    answer = await stored.call("DELETE", f"{BATCHES}/{batch['id']}")
    assert answer.json() == {"id": batch["id"], "type": "message_batch_deleted"}
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/results"), ("POST", "/cancel")]:
        error_of(await stored.call(method, f"{BATCHES}/{batch['id']}{path}"), 404)
    assert (await stored.call("GET", BATCHES)).json()["data"] == []


@pytest.mark.parametrize("prefix", ["", "/anthropic"])
async def test_where_results_are(api, prefix):
    batch = await create(api)
    await api.run(batch["id"])
    url = (await get(api, batch, f"{prefix}{BATCHES}"))["results_url"]
    assert url == f"http://127.0.0.1:{api.port}{prefix}{BATCHES}/{batch['id']}/results"
    assert (await api.call("GET", url)).status_code == 200


async def test_lists_go_both_ways(stored):
    ids = [(await create(stored, item()))["id"] for _ in range(5)][::-1]

    async def page(**query):
        answer = (await stored.call("GET", BATCHES, params=query)).json()
        assert [answer["first_id"], answer["last_id"]] == [answer["data"][0]["id"], answer["data"][-1]["id"]]
        return [batch["id"] for batch in answer["data"]], answer["has_more"]

    assert await page() == (ids, False)
    assert await page(limit=2) == (ids[:2], True)
    assert await page(limit=2, after_id=ids[1]) == (ids[2:4], True)
    assert await page(limit=2, after_id=ids[3]) == (ids[4:], False)
    assert await page(limit=2, before_id=ids[4]) == (ids[2:4], True)
    assert await page(limit=2, before_id=ids[2]) == (ids[:2], False)
    assert (await stored.call("GET", BATCHES, params={"before_id": ids[0]})).json() == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }
    await stored.run(ids[2])
    await stored.call("DELETE", f"{BATCHES}/{ids[2]}")
    assert await page(limit=2, after_id=ids[2]) == (ids[3:], False), "a cursor is compared, not looked up"


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": 1001}, {"limit": "x"}, {"after_id": "batch_1"}, {"before_id": "msgbatch_1"}]
)
async def test_lists_refuse_what_is_malformed(api, query):
    error = error_of(await api.call("GET", BATCHES, params=query), 400)
    assert error["message"].startswith(next(iter(query)))


async def test_a_list_goes_one_way_at_a_time(api):
    batch = await create(api)
    query = {"after_id": batch["id"], "before_id": batch["id"]}
    assert error_of(await api.call("GET", BATCHES, params=query), 400)["message"].startswith("before_id: ")


async def test_the_apis_do_not_meet(api):
    ours, theirs = await create(api), await api.create()
    for path in (f"{BATCHES}/{theirs['id']}", f"{BATCHES}/{theirs['id']}/results"):
        error_of(await api.call("GET", path), 404)
    for path in (
        f"/v1/batches/{ours['id']}",
        f"/v1/batches/{ours['id']}/results",
        f"/v1/batches/{ours['id']}/output.jsonl",
    ):
        assert (await api.call("GET", path)).json()["error"]["code"] == "batch_not_found"
    assert [batch["id"] for batch in (await api.call("GET", BATCHES)).json()["data"]] == [ours["id"]]
    assert [batch["id"] for batch in (await api.call("GET", "/v1/batches")).json()["data"]] == [theirs["id"]]


async def test_other_owners_see_nothing(api):
    batch = await create(api)
    bob = await api.owner("bob")
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/results"), ("POST", "/cancel")]:
        error = error_of(await api.call(method, f"{BATCHES}/{batch['id']}{path}", by=bob), 404)
        assert error == {"type": "not_found_error", "message": "There is no Message Batch with this ID"}
    assert (await api.call("GET", BATCHES, by=bob)).json()["data"] == []


async def test_managing_needs_no_version_and_takes_any_beta(api):
    batch = await create(api)
    await api.run(batch["id"])
    headers = {"anthropic-beta": "message-batches-2024-09-24"}
    for method, path in [("GET", ""), ("GET", "/results"), ("POST", "/cancel"), ("DELETE", "")]:
        assert (await api.call(method, f"{BATCHES}/{batch['id']}{path}?beta=true", headers=headers)).status_code == 200
