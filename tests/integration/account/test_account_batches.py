"""`/v1/account/batches`: the list of all kinds, its filters and pages, and one batch in full."""

import pytest
from api import chat, failure, success

from fibatchd.ids import new_id
from fibatchd.store import admission, ending, progress
from fibatchd.store.interface import Query

LIST = "/v1/account/batches"


def put(owner, prefix, source, api="batches", **more):
    """A script that stores a batch of some kind, as its plugin would."""
    new = admission.NewBatch(
        id=new_id(prefix),
        api=api,
        source=source,
        account_id=owner.account.id,
        key_id=owner.key.id,
        endpoint="/v1/chat/completions",
        window_s=86_400,
        **more,
    )
    yield from admission.insert(new, "validating")
    return new.id


async def listed(api, query="", **options):
    answer = await api.call("GET", f"{LIST}?{query}", **options)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert page["first_id"] == (page["data"][0]["id"] if page["data"] else None)
    return page


async def ids(api, query="", **options):
    return [item["id"] for item in (await listed(api, query, **options))["data"]]


async def detail(api, batch_id):
    answer = await api.call("GET", f"{LIST}/{batch_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
async def kinds(api):
    """One batch of each kind, oldest first; and one of somebody else's."""
    write = api.context.store.write
    inline = (await api.create(metadata={"run": "Seven_7"}))["id"]
    file = await write(put, api.ada, "batch_", "file", input_file_id=new_id("file-"), label="50%_Questions.jsonl")
    message = await write(put, api.ada, "msgbatch_", "message", api="message")
    await write(put, await api.owner("eve"), "batch_", "inline")
    return inline, file, message


async def test_all_kinds_newest_first_a_page_at_a_time(api, kinds):
    inline, file, message = kinds
    assert await ids(api) == [message, file, inline]
    first = await listed(api, "limit=2")
    assert [first["has_more"], first["last_id"]] == [True, file]
    assert await ids(api, f"limit=2&after={first['last_id']}") == [inline]
    assert await ids(api, f"after={message}") == [file, inline]


FILTERS = {
    "kind=file": "file",
    "kind=inline,message": "message inline",
    "status=validating": "message file inline",
    "status=completed,failed": "",
    "model=glm-5.3-flash": "inline",
    "model=qwen3.6-35b": "",
    "q=questions": "file",
    "q=50%25_q": "file",
    "q=5_%25": "",
    "q=seven_7": "inline",
    "q=sevenx7": "",
    "q=&kind=": "message file inline",
    "q=questions&kind=inline": "",
}


async def test_filters(api, kinds):
    names = dict(zip(kinds, ("inline", "file", "message"), strict=True))
    found = {query: " ".join(names[batch_id] for batch_id in await ids(api, query)) for query in FILTERS}
    assert found == FILTERS


async def test_a_long_text_is_looked_for_in_ids(api, kinds):
    inline, file, _ = kinds
    assert await ids(api, f"q={inline}") == [inline]
    assert await ids(api, f"q={file[-12:].upper()}") == [file]
    assert await ids(api, f"q={file[-4:]}") == []


MALFORMED = {
    "limit=0": "limit", "limit=101": "limit", "after=1": "after", "after=BATCH_": "after", "status=done": "status",
    "status=failed,": "status", "q=%00": "q", f"model={'m' * 201}": "model",
}  # fmt: skip


async def test_what_is_malformed_is_refused(api):
    answers = {query: await api.call("GET", f"{LIST}?{query}") for query in MALFORMED}
    assert {answer.status_code for answer in answers.values()} == {400}
    assert {query: answer.json()["error"]["param"] for query, answer in answers.items()} == MALFORMED


async def test_an_item_tells_what_has_come_of_a_batch(api):
    batch = await api.create([chat("a"), chat("b"), chat("c", model="qwen3.6-35b"), chat("d")], metadata={"k": "v"})
    one, two, *_ = await api.claim(batch["id"], 3)
    await api.end(success(one), failure(two, "invalid_request", "no", 400, cost=None))
    (item,) = (await listed(api))["data"]
    assert item["counts"] == {
        "total": 4, "succeeded": 1, "failed": 1, "cancelled": 0, "expired": 0, "running": 1, "queued": 1,
    }  # fmt: skip
    assert item["tokens"] == {"input": 16, "cached": 0, "output": 120, "reasoning": 0, "total": 136}
    assert (item["cost_usd"], item["cost_unknown_attempts"]) == (0.0000496, 1)
    assert (item["kind"], item["api"], item["status"]) == ("inline", "batches", "in_progress")
    assert (item["models"], item["metadata"]) == (["glm-5.3-flash", "qwen3.6-35b"], {"k": "v"})
    assert item["started_at"] == item["created_at"] == batch["created_at"]
    assert item["expires_at"] == batch["expires_at"]
    assert item["waiting"] is None


async def test_a_poll_without_news_costs_no_body(api):
    batch = await api.create()
    for path in (LIST, f"{LIST}/{batch['id']}"):
        first = await api.call("GET", path)
        seen = {"if-none-match": first.headers["etag"]}
        again = await api.call("GET", path, headers=seen)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
        assert (await api.call("GET", path, headers={"if-none-match": '"other"'})).status_code == 200
    await api.claim(batch["id"], 1)
    assert (await api.call("GET", LIST, headers=seen)).status_code == 200


async def test_one_batch_in_full(api):
    batch = await api.create([chat(f"q-{n}") for n in range(5)])
    one, two, three = await api.claim(batch["id"], 3)
    api.clock.advance(10)
    await api.end(
        success(one),
        failure(two, "invalid_request", "no", 400),
        failure(three, "timeout", "late", 504, retry_in=5.0),
    )
    found = await detail(api, batch["id"])
    assert found["errors"] == [
        {"outcome": "failed", "code": "invalid_request", "count": 1},
        {"outcome": "queued", "code": "timeout", "count": 1},
    ]
    assert (found["problems"], found["reruns"]) == ([], [])
    api.clock.advance(10)
    await api.call("POST", f"/v1/batches/{batch['id']}/cancel")
    found = await detail(api, batch["id"])
    began = batch["created_at"]
    assert found["timeline"] == [
        {"state": "created", "at": began},
        {"state": "in_progress", "at": began},
        {"state": "cancelling", "at": began + 20},
        {"state": "cancelled", "at": began + 20},
    ]
    assert found["errors"] == [
        {"outcome": "cancelled", "code": "batch_cancelled", "count": 3},
        {"outcome": "failed", "code": "invalid_request", "count": 1},
    ]
    assert found["counts"]["cancelled"] == 3


async def test_problems_of_an_input_that_was_checked_later(api):
    write = api.context.store.write
    batch_id = await write(put, api.ada, "batch_", "file")
    assert (await detail(api, batch_id))["waiting"] == {"reason": "validating", "until": None}
    problem = {"code": "invalid_json_line", "message": "not JSON", "param": None, "line": 17}
    text = '{"object":"list","data":[{"code":"invalid_json_line","message":"not JSON","param":null,"line":17}]}'
    await write(ending.refuse, batch_id, text, api.context.policy)
    found = await detail(api, batch_id)
    assert (found["status"], found["problems"], found["waiting"]) == ("failed", [problem], None)


async def test_another_accounts_a_deleted_and_an_unknown_batch_are_not_found(api):
    batch = await api.create()
    eve = await api.owner("eve")
    paths = ("", "/progress", "/requests", "/requests/0")
    for by, batch_id in ((eve, batch["id"]), (None, new_id("batch_")), (None, "nonsense"), (None, "batch_x")):
        for path in paths:
            answer = await api.call("GET", f"{LIST}/{batch_id}{path}", by=by)
            assert answer.status_code == 404, path
            assert answer.json()["error"]["code"] == "batch_not_found"
    await api.call("POST", f"/v1/batches/{batch['id']}/cancel")
    assert (await api.call("DELETE", f"/v1/batches/{batch['id']}")).status_code == 200
    assert (await api.call("GET", f"{LIST}/{batch['id']}")).status_code == 404
    assert await ids(api) == await ids(api, by=eve) == []


async def test_looking_needs_neither_access_nor_quota_but_batches(api):
    batch = await api.create()

    def lose(account_id):
        yield Query("UPDATE accounts SET tier = 'free', quota = 0, quota_set = 1 WHERE id = ?", (account_id,))

    await api.context.store.write(lose, api.ada.account.id)
    (item,) = (await listed(api))["data"]
    assert item["waiting"] == {"reason": "access", "until": None}
    api.configure(enabled=False)
    for path in (LIST, f"{LIST}/{batch['id']}", f"{LIST}/{batch['id']}/progress"):
        assert (await api.call("GET", path)).json()["error"]["code"] == "batches_unavailable"
    assert (await api.call("GET", "/v1/usage")).status_code == 200


async def test_errors_of_an_ended_batch_are_counted_once(api, monkeypatch):
    batch, read, counted = await api.create(), api.store.read, []
    await api.end(*[failure(claimed, "timeout", "late", 504) for claimed in await api.claim(batch["id"])])

    async def watched(script, *args, **kwargs):
        counted.extend([script] if script is progress.errors else [])
        return await read(script, *args, **kwargs)

    monkeypatch.setattr(api.store, "read", watched)
    for _ in range(3):
        shown = (await api.call("GET", f"/v1/account/batches/{batch['id']}")).json()
        assert shown["errors"] == [{"outcome": "failed", "code": "timeout", "count": 2}]
    assert len(counted) == 1
