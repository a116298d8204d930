"""`POST /v1/batches` with `input_file_id`: what is refused at once, and what is there when it is not."""

from dataclasses import replace

import pytest
import trio
from site_files import chats

from fibatchd.store import accounts


async def test_the_batch_is_there_at_once(each_site):
    file = await each_site.upload(chats(2))
    answer = await each_site.post_batch(file["id"], metadata={"project": "eval-42"})
    assert answer.status_code == 200, answer.text
    batch = answer.json()
    now = int(each_site.clock.now)
    expected = {
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "errors": None,
        "input_file_id": file["id"],
        "completion_window": "24h",
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": now,
        "expires_at": now + 86400,
        "in_progress_at": None,
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "metadata": {"project": "eval-42"},
    }
    assert expected.items() <= batch.items()
    assert batch["id"].startswith("batch_")
    assert await each_site.get(batch["id"]) == batch
    assert (await each_site.call("GET", "/v1/batches")).json()["data"] == [batch]
    results = (await each_site.call("GET", f"/v1/batches/{batch['id']}/results")).json()
    assert results == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}
    assert (await each_site.call("GET", f"/v1/batches/{batch['id']}/output.jsonl")).status_code == 409


@pytest.mark.parametrize(
    ("members", "code", "param"),
    [
        ({"endpoint": ...}, "missing_required_parameter", "endpoint"),
        ({"endpoint": None}, "missing_required_parameter", "endpoint"),
        ({"endpoint": 1}, "invalid_type", "endpoint"),
        ({"endpoint": "/v1/completions"}, "invalid_value", "endpoint"),
        ({"endpoint": "/v1/messages"}, "invalid_value", "endpoint"),
        ({"endpoint": "/v1/embeddings"}, "invalid_value", "endpoint"),  # its extension is off
        ({"completion_window": ...}, "missing_required_parameter", "completion_window"),
        ({"completion_window": "48h"}, "invalid_value", "completion_window"),
        ({"completion_window": 24}, "invalid_type", "completion_window"),
        ({"metadata": {"a": 1}}, "invalid_type", "metadata.a"),
        ({"metadata": {"": "x"}}, "invalid_value", "metadata"),
        ({"metadata": {"a": "\0"}}, "invalid_value", "metadata.a"),
        ({"metadata": {str(n): "" for n in range(17)}}, "invalid_value", "metadata"),
        ({"model": "glm-5.3-flash"}, "unknown_parameter", "model"),
        ({"requests": []}, "invalid_value", "input_file_id"),
        ({"output_expires_after": 3600}, "invalid_type", "output_expires_after"),
        ({"output_expires_after": {}}, "invalid_value", "output_expires_after.anchor"),
        ({"output_expires_after": {"anchor": "created_at"}}, "invalid_value", "output_expires_after.seconds"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3599}}, "invalid_value", "output_expires_after.seconds"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 2592001}}, "invalid_value", "output_expires_after.seconds"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": True}}, "invalid_value", "output_expires_after.seconds"),
        ({"output_expires_after": {"anchor": "ended_at", "seconds": 3600}}, "invalid_value", "output_expires_after.anchor"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3600, "x": 1}}, "unknown_parameter", "output_expires_after"),
        ({"input_file_id": 7}, "invalid_type", "input_file_id"),
        ({"input_file_id": ""}, "invalid_value", "input_file_id"),
        ({"input_file_id": "file-" + "0" * 32}, "invalid_value", "input_file_id"),
        ({"input_file_id": "batch_6f1c0a7e2b8d4e55a1c3f9d2e4b6a8c0"}, "invalid_value", "input_file_id"),
    ],
)  # fmt: skip
async def test_what_is_refused(site, members, code, param):
    file = await site.upload(chats(1))
    answer = await site.post_batch(file["id"], **members)
    assert answer.status_code == 400, answer.text
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == (code, param)
    assert (await site.call("GET", "/v1/batches")).json()["data"] == []


@pytest.mark.parametrize("metadata", [None, ..., {"k" * 64: "v" * 512}])
async def test_metadata_comes_back(site, metadata):
    batch = await site.new_batch(chats(1), metadata=metadata)
    assert batch["metadata"] == (None if metadata is ... else metadata)


async def test_a_deleted_an_expired_and_a_result_file_are_no_input(each_site):
    file = await each_site.upload(chats(1))
    await each_site.call("DELETE", f"/v1/files/{file['id']}")
    assert (await each_site.post_batch(file["id"])).status_code == 400
    batch = await each_site.validated(chats(1))
    await each_site.run(batch["id"])
    await each_site.work()
    output = (await each_site.get(batch["id"]))["output_file_id"]
    answer = await each_site.post_batch(output)
    assert answer.status_code == 400
    assert "purpose" in answer.json()["error"]["message"]
    old = await each_site.upload(chats(1))
    each_site.clock.advance(30 * 86400)
    assert (await each_site.post_batch(old["id"])).status_code == 400


async def test_one_file_serves_many_batches(site):
    file = await site.upload(chats(2))
    first, second = [(await site.post_batch(file["id"])).json() for _ in range(2)]
    assert first["id"] != second["id"]
    await site.work()
    for batch in (first, second):
        assert (await site.get(batch["id"]))["status"] == "in_progress"


async def test_who_may_create(site):
    file = await site.upload(chats(1))
    await site.context.store.write(accounts.set_account_quota, site.ada.account.id, 0)
    answer = await site.post_batch(file["id"])
    assert (answer.status_code, answer.headers["x-should-retry"]) == (429, "false")
    assert "retry-after" in answer.headers
    await site.context.store.write(accounts.set_account_tier, site.ada.account.id, "free")
    assert (await site.post_batch(file["id"])).status_code == 403


async def test_unfinished_batches_are_limited(site):
    site.set(max_unfinished_batches=2)
    file = await site.upload(chats(1))
    for _ in range(2):
        assert (await site.post_batch(file["id"])).status_code == 200
    answer = await site.post_batch(file["id"])
    assert (answer.status_code, answer.headers["x-should-retry"]) == (429, "false")
    batch = (await site.call("GET", "/v1/batches")).json()["data"][0]
    await site.call("POST", f"/v1/batches/{batch['id']}/cancel")
    assert (await site.post_batch(file["id"])).status_code == 200


async def test_an_idempotency_key(each_site):
    file = await each_site.upload(chats(1))
    key = {"Idempotency-Key": "run 1"}
    batch = (await each_site.post_batch(file["id"], headers=key)).json()
    assert (await each_site.post_batch(file["id"], headers=key)).json() == batch
    answer = await each_site.post_batch(file["id"], headers=key, metadata={"a": "b"})
    assert (answer.status_code, answer.headers["x-should-retry"]) == (409, "false")
    await each_site.call("DELETE", f"/v1/files/{file['id']}")
    await each_site.work()
    assert (await each_site.post_batch(file["id"], headers=key)).json() == await each_site.get(batch["id"])
    await each_site.call("DELETE", f"/v1/batches/{batch['id']}")
    assert (await each_site.post_batch(file["id"], headers=key)).status_code == 410


async def test_a_refused_call_does_not_use_up_its_key(site):
    file = await site.upload(chats(1))
    key = {"Idempotency-Key": "once"}
    assert (await site.post_batch("file-" + "0" * 32, headers=key)).status_code == 400
    assert (await site.post_batch(file["id"], headers=key)).status_code == 200


async def test_calls_with_one_key_that_race_make_one_batch(each_site):
    file = await each_site.upload(chats(1))
    answers = []

    async def create():
        answers.append(await each_site.post_batch(file["id"], headers={"Idempotency-Key": "race"}))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(create)
    assert [answer.status_code for answer in answers] == [200] * 8
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len((await each_site.call("GET", "/v1/batches")).json()["data"]) == 1


async def test_switched_off_only_creating_is_refused(site):
    file = await site.upload(chats(2))
    key = {"Idempotency-Key": "before"}
    running = (await site.post_batch(file["id"], headers=key)).json()
    site.context.config = replace(site.context.config, extensions={"files": False})
    for answer in (await site.post_file(chats(1)), await site.post_batch(file["id"])):
        assert answer.status_code == 400
        assert "File batches are not enabled" in answer.json()["error"]["message"]
    assert (await site.post_batch(file["id"], headers=key)).json()["id"] == running["id"], "a replay creates nothing"
    assert await site.work() == 1
    await site.run(running["id"])
    assert await site.work() == 1
    ended = await site.get(running["id"])
    assert ended["status"] == "completed"
    assert len(await site.lines(ended["output_file_id"])) == 2
    assert len((await site.call("GET", "/v1/files")).json()["data"]) == 2
    assert (await site.call("DELETE", f"/v1/files/{file['id']}")).status_code == 200
    assert (await site.call("DELETE", f"/v1/batches/{running['id']}")).status_code == 200
