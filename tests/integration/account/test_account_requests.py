"""A batch's requests as a table, one of them in full, and what the batch has done over time."""

import json

import pytest
import trio
import trio.testing
from api import chat, failure, success

ANSWER = json.dumps({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}).encode()


async def get(api, batch, path):
    answer = await api.call("GET", f"/v1/account/batches/{batch['id']}{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def indexes(api, batch, query):
    page = await get(api, batch, f"/requests?{query}")
    assert (page["first_id"], page["last_id"]) != ("None", "None")
    return [item["index"] for item in page["data"]], page["has_more"]


@pytest.fixture
async def batch(api):
    """Seven requests: one succeeded, one failed, one waits for a retry, one runs, three are queued."""
    made = await api.create([chat(f"q-{n}") for n in range(7)])
    one, two, three, _ = await api.claim(made["id"], 4)
    api.clock.advance(2.5)
    await api.end(
        success(one, ANSWER),
        failure(two, "invalid_request", "no such thing", 400),
        failure(three, "timeout", "late", 504, retry_in=60.0),
    )
    return made


PAGES = {
    "": ([0, 1, 2, 3, 4, 5, 6], False),
    "limit=3": ([0, 1, 2], True),
    "limit=3&after=2": ([3, 4, 5], True),
    "limit=3&after=5": ([6], False),
    "after=6": ([], False),
    "after=999999999": ([], False),
    "outcome=succeeded": ([0], False),
    "outcome=failed,running": ([1, 3], False),
    "outcome=queued&limit=2": ([2, 4], True),
    "outcome=queued&limit=2&after=4": ([5, 6], False),
    "outcome=cancelled,expired": ([], False),
}


async def test_pages_and_outcomes(api, batch):
    assert {query: await indexes(api, batch, query) for query in PAGES} == PAGES


async def test_requests_that_never_ran_have_the_outcome_of_their_batch(api, batch):
    await api.call("POST", f"/v1/batches/{batch['id']}/cancel")
    assert await indexes(api, batch, "outcome=cancelled") == ([2, 4, 5, 6], False)
    assert await indexes(api, batch, "outcome=queued") == ([], False)
    assert await indexes(api, batch, "outcome=running") == ([3], False)
    first, *_ = (await get(api, batch, "/requests?outcome=cancelled"))["data"]
    assert first["code"] == "batch_cancelled"
    assert "late" in first["message"]


async def test_rows(api, batch):
    done, failed, retried, running, queued, *_ = (await get(api, batch, "/requests"))["data"]
    began = batch["created_at"]
    assert done.pop("request_id").startswith("req_")
    assert done.pop("id").startswith("batch_req_")
    assert done == {
        "index": 0, "custom_id": "q-0", "model": "glm-5.3-flash", "outcome": "succeeded", "code": None, "message": None,
        "status_code": 200, "attempts": 1, "started_at": began, "ended_at": began + 2.5, "duration_s": 2.5,
        "tokens": {"input": 10, "output": 5, "total": 15}, "cost_usd": 0.000003,
    }  # fmt: skip
    assert (failed["code"], failed["message"], failed["status_code"]) == ("invalid_request", "no such thing", 400)
    assert (retried["outcome"], retried["code"], retried["attempts"]) == ("queued", "timeout", 1)
    assert (running["outcome"], running["started_at"], running["duration_s"]) == ("running", began, None)
    assert (queued["attempts"], queued["started_at"], queued["tokens"]) == (0, None, None)


async def test_a_large_answer_is_read_only_where_it_is_asked_for_by_itself(api):
    batch = await api.create([chat("big")])
    usage = {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    answer = json.dumps({"choices": ["x" * 40_000]} | usage).encode()
    await api.run(batch["id"], answer)
    (row,) = (await get(api, batch, "/requests"))["data"]
    assert (row["tokens"], row["cost_usd"]) == (None, None)
    whole = await get(api, batch, "/requests/0")
    assert whole["tokens"] == {"input": 1, "output": 2, "total": 3}


async def test_one_request_with_body_and_answer_as_they_are(api):
    body = '{"model": "glm-5.3-flash",  "messages": [{"role": "user", "content": "\\u00e9 <script>"}], "seed": 1e2}'
    text = f'{{"requests": [{{"custom_id": "q", "body": {body}}}]}}'
    made = await api.call("POST", "/v1/batches", content=text, headers={"content-type": "application/json"})
    batch = made.json()
    answer = b'{"choices": [ ],   "usage": {"prompt_tokens": 1, "completion_tokens": 1}}'
    await api.run(batch["id"], answer)
    shown = await api.call("GET", f"/v1/account/batches/{batch['id']}/requests/0")
    assert f'"body":{body},"answer":{answer.decode()}' in shown.text


async def test_what_is_not_there_or_malformed_is_refused(api):
    path = f"/v1/account/batches/{(await api.create([chat('only')]))['id']}/requests"
    for index in ("1", "-1", "01", "x", "9999999999"):
        answer = await api.call("GET", f"{path}/{index}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), index
    for query, param in (
        ("after=x", "after"),
        ("after=-1", "after"),
        ("outcome=done", "outcome"),
        ("limit=1001", "limit"),
    ):
        answer = await api.call("GET", f"{path}?{query}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_progress_before_anything_ran(api):
    batch = await api.create()
    progress = await get(api, batch, "/progress")
    assert (progress["from"], progress["buckets"], progress["forecast"]) == (None, [], None)


async def test_progress(api):
    batch = await api.create([chat(f"q-{n}") for n in range(100)])
    claimed = await api.claim(batch["id"], 40)
    for number, request in enumerate(claimed[:20]):
        api.clock.advance(1)
        await api.end(failure(request, "invalid_request", "no", 400) if number == 19 else success(request))
    api.clock.advance(20)
    progress = await get(api, batch, "/progress?buckets=10")
    began = batch["created_at"]
    assert (progress["from"], progress["bucket_s"]) == (began, 5)
    assert [bucket["at"] for bucket in progress["buckets"]] == [began + 5 * n for n in range(9)]
    assert [bucket["succeeded"] for bucket in progress["buckets"]] == [4, 5, 5, 5, 0, 0, 0, 0, 0]
    assert [bucket["failed"] for bucket in progress["buckets"]] == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    # All were claimed at once, so that the latencies are 1, 2, 3 and 4 s.
    assert progress["buckets"][0] == {"at": began, "succeeded": 4, "failed": 0, "p50_s": 2, "p95_s": 4, "max_s": 4}
    assert progress["buckets"][5] == {
        "at": began + 25, "succeeded": 0, "failed": 0, "p50_s": None, "p95_s": None, "max_s": None,
    }  # fmt: skip
    # 20 in 40 s, and 80 are left.
    assert progress["forecast"] == {"ends_at": began + 40 + 160, "in_time": True, "per_minute": 30.0, "basis_s": 40}


async def test_progress_of_an_ended_batch_stays_as_it_is(api):
    batch = await api.create([chat("a"), chat("b")])
    await api.run(batch["id"])
    first = await get(api, batch, "/progress")
    api.clock.advance(86_400)
    assert await get(api, batch, "/progress") == first
    assert first["forecast"] is None
    assert sum(bucket["succeeded"] for bucket in first["buckets"]) == 2


async def test_a_clock_that_was_set_makes_no_more_buckets_and_no_negative_times(api):
    batch = await api.create([chat("a"), chat("b"), chat("c")])
    first, second, third = await api.claim(batch["id"], 3)
    api.clock.advance(86_400)
    await api.end(success(first))
    api.clock.advance(-86_390)
    await api.end(success(second))
    progress = await get(api, batch, "/progress?buckets=20")
    assert (progress["bucket_s"], len(progress["buckets"])) == (1, 11)
    assert sum(bucket["succeeded"] for bucket in progress["buckets"]) == 2
    api.clock.advance(-40)
    await api.end(success(third))
    (bucket,) = (await get(api, batch, "/progress"))["buckets"]
    assert (bucket["succeeded"], bucket["p50_s"]) == (3, 10)
    assert (await get(api, batch, "/requests/2"))["duration_s"] == 0


async def test_looking_through_batches_leaves_readers_to_others(api, monkeypatch):
    batch = await api.create()
    read, release, all_asked = api.store.read, trio.Event(), trio.Event()
    asked = looking = 0

    async def slow(script, *args, **kwargs):
        nonlocal asked, looking
        if script.__name__ == "_course":
            looking += 1
            await release.wait()
        found = await read(script, *args, **kwargs)
        if script.__name__ == "authenticate" and (asked := asked + 1) == 5:
            all_asked.set()
        return found

    monkeypatch.setattr(api.store, "read", slow)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(get, api, batch, "/progress")
        await all_asked.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert looking == 2
        assert (await api.call("GET", "/v1/account")).status_code == 200
        release.set()
    assert looking == 5
