"""How a batch from a file ends: its result files, line by line, and what becomes of them."""

import hashlib
import json
from collections import Counter

import pytest
from api import chat, failure, success
from fibatchd_plugins.files.finalizing import FINALIZE
from site_files import chats, jsonl

from fibatchd.store import ending


async def ended(site, batch):
    """The batch after its result files were written."""
    assert await site.work() == 1
    return await site.get(batch["id"])


async def expire(site, batch):
    site.clock.advance(86400)
    await site.context.store.write(ending.expire, batch["id"], site.context.policy)


async def test_a_batch_whose_requests_are_over_is_finalizing_without_ids(each_site):
    batch = await each_site.validated(chats(2))
    await each_site.run(batch["id"])
    finalizing = await each_site.get(batch["id"])
    assert finalizing["status"] == "finalizing"
    assert (finalizing["output_file_id"], finalizing["error_file_id"]) == (None, None)
    assert finalizing["finalizing_at"] == int(each_site.clock.now)
    assert (await each_site.call("POST", f"/v1/batches/{batch['id']}/cancel")).json() == finalizing
    final = await ended(each_site, batch)
    assert final["status"] == "completed"
    assert final["request_counts"] == {"total": 2, "completed": 2, "failed": 0}
    assert final["output_file_id"].startswith("file-")
    assert final["error_file_id"] is None
    assert final["results_expires_at"] == final["completed_at"] + 7 * 86400


async def test_lines_in_submission_order_each_in_its_file(each_site):
    batch = await each_site.validated(chats(7))
    claimed = await each_site.claim(batch["id"], 5)
    await each_site.end(
        success(claimed[3], b'{"id": "chatcmpl-3", "n": 1.50, "choices": []}'),
        failure(claimed[1], "invalid_request", "no", 400),
        success(claimed[0], b'{"text": "\xe2\x80\xa8 \xc2\x85",\n "choices": []}'),
        failure(claimed[4], "result_too_large", "too large", None),
        failure(claimed[2], "rate_limited", "slow down", 429),
    )
    await each_site.call("POST", f"/v1/batches/{batch['id']}/cancel")
    cancelled = await ended(each_site, batch)
    assert cancelled["status"] == "cancelled"
    assert cancelled["request_counts"] == {"total": 7, "completed": 2, "failed": 3}
    output = await each_site.lines(cancelled["output_file_id"])
    errors = await each_site.lines(cancelled["error_file_id"])
    assert [line["custom_id"] for line in output] == ["q-0", "q-3"]
    assert [line["custom_id"] for line in errors] == ["q-1", "q-2", "q-4", "q-5", "q-6"]
    for line in output + errors:
        assert set(line) == {"id", "custom_id", "response", "error"}
        assert line["id"].startswith("batch_req_")
    assert output[1]["response"]["status_code"] == 200
    assert output[1]["response"]["request_id"].startswith("req_")
    assert output[0]["response"]["body"] == {"text": "\u2028 \x85", "choices": []}
    text = (await each_site.content(cancelled["output_file_id"])).content
    assert b'"n": 1.50' in text
    assert b"\\u2028 \\u0085" in text
    assert len(text.decode().splitlines()) == text.count(b"\n") == 2
    http = {line["custom_id"]: line["response"] for line in errors if line["response"]}
    assert {name: response["status_code"] for name, response in http.items()} == {"q-1": 400, "q-2": 429}
    assert http["q-1"]["body"]["error"] == {
        "message": "no",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_request",
    }
    never = {line["custom_id"]: line["error"]["code"] for line in errors if line["error"]}
    assert never == {"q-4": "result_too_large", "q-5": "batch_cancelled", "q-6": "batch_cancelled"}


async def test_a_file_that_would_be_empty_is_null(each_site):
    batch = await each_site.validated(chats(2))
    await each_site.end(
        *[failure(claimed, "invalid_request", "no", 400) for claimed in await each_site.claim(batch["id"])]
    )
    final = await ended(each_site, batch)
    assert (final["status"], final["output_file_id"]) == ("completed", None)
    assert len(await each_site.lines(final["error_file_id"])) == 2


async def test_a_result_file_is_a_file(each_site):
    batch = await each_site.validated(chats(3))
    await each_site.run(batch["id"])
    final = await ended(each_site, batch)
    file = (await each_site.call("GET", f"/v1/files/{final['output_file_id']}")).json()
    content = (await each_site.content(file["id"])).content
    assert file == {
        "id": final["output_file_id"],
        "object": "file",
        "bytes": len(content),
        "created_at": final["completed_at"],
        "expires_at": final["results_expires_at"],
        "filename": f"{batch['id']}_output.jsonl",
        "purpose": "batch_output",
        "status": "processed",
        "status_details": None,
    }
    again = await each_site.content(file["id"])
    assert again.content == content
    assert again.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'


async def test_an_expired_batch_keeps_what_had_finished(each_site):
    batch = await each_site.validated(chats(3))
    claimed = await each_site.claim(batch["id"], 1)
    await expire(each_site, batch)
    assert (await each_site.get(batch["id"]))["status"] == "in_progress", "one still runs"
    await each_site.end(success(claimed[0]))
    final = await ended(each_site, batch)
    assert (final["status"], final["request_counts"]) == ("expired", {"total": 3, "completed": 1, "failed": 2})
    assert len(await each_site.lines(final["output_file_id"])) == 1
    errors = await each_site.lines(final["error_file_id"])
    assert Counter(line["error"]["code"] for line in errors) == {"batch_expired": 2}


async def test_a_failed_batch_has_its_files(each_site):
    batch = await each_site.validated(chats(3))
    claimed = await each_site.claim(batch["id"], 1)
    await each_site.end(success(claimed[0]))
    await each_site.context.store.write(
        ending.fail, batch["id"], "owner_unauthorized", "The key is gone", each_site.context.policy
    )
    final = await ended(each_site, batch)
    assert (final["status"], final["error"]["code"], final["errors"]) == ("failed", "owner_unauthorized", None)
    assert len(await each_site.lines(final["output_file_id"])) == 1
    assert [line["error"]["code"] for line in await each_site.lines(final["error_file_id"])] == ["batch_failed"] * 2


async def test_a_cancelled_batch_writes_its_files_while_cancelling(each_site):
    batch = await each_site.validated(chats(3))
    claimed = await each_site.claim(batch["id"], 1)
    cancelling = (await each_site.call("POST", f"/v1/batches/{batch['id']}/cancel")).json()
    assert cancelling["status"] == "cancelling"
    await each_site.end(success(claimed[0]))
    waiting = await each_site.get(batch["id"])
    assert (waiting["status"], waiting["finalizing_at"], waiting["output_file_id"]) == ("cancelling", None, None)
    final = await ended(each_site, batch)
    assert (final["status"], final["request_counts"]) == ("cancelled", {"total": 3, "completed": 1, "failed": 0})
    assert len(await each_site.lines(final["output_file_id"])) == 1
    assert len(await each_site.lines(final["error_file_id"])) == 2


async def test_one_cancelled_before_anything_ran_has_only_errors(site):
    batch = await site.validated(chats(3))
    await site.call("POST", f"/v1/batches/{batch['id']}/cancel")
    final = await ended(site, batch)
    assert (final["status"], final["output_file_id"]) == ("cancelled", None)
    assert [line["error"]["code"] for line in await site.lines(final["error_file_id"])] == ["batch_cancelled"] * 3


async def test_one_cancelled_while_validating_has_no_files(each_site):
    batch = await each_site.new_batch(chats(3))
    cancelled = (await each_site.call("POST", f"/v1/batches/{batch['id']}/cancel")).json()
    assert (cancelled["status"], cancelled["request_counts"]["total"]) == ("cancelled", 0)
    await each_site.work()
    final = await each_site.get(batch["id"])
    assert (final["status"], final["output_file_id"], final["error_file_id"]) == ("cancelled", None, None)
    assert await each_site.rows("SELECT number FROM requests") == []
    assert await each_site.rows("SELECT id FROM jobs") == []


async def test_one_expired_while_validating(each_site):
    batch = await each_site.new_batch(chats(3))
    await expire(each_site, batch)
    await each_site.work()
    final = await each_site.get(batch["id"])
    assert (final["status"], final["output_file_id"], final["error_file_id"]) == ("expired", None, None)


async def test_a_deleted_result_file_is_not_written_again(each_site):
    batch = await each_site.validated(chats(2))
    await each_site.run(batch["id"])
    final = await ended(each_site, batch)
    assert (await each_site.call("DELETE", f"/v1/files/{final['output_file_id']}")).status_code == 200
    await each_site.sweep()
    assert await each_site.work() == 0
    assert await each_site.get(batch["id"]) == final
    assert (await each_site.content(final["output_file_id"])).status_code == 404
    results = (await each_site.call("GET", f"/v1/batches/{batch['id']}/results")).json()
    assert [result["status"] for result in results["data"]] == ["completed"] * 2
    export = await each_site.call("GET", f"/v1/batches/{batch['id']}/output.jsonl")
    assert len(export.content.splitlines()) == 2


async def test_result_files_go_with_the_batch(each_site):
    batch = await each_site.validated(chats(2))
    claimed = await each_site.claim(batch["id"])
    await each_site.end(success(claimed[0]), failure(claimed[1], "invalid_request", "no", 400))
    final = await ended(each_site, batch)
    assert (await each_site.call("DELETE", f"/v1/batches/{batch['id']}")).status_code == 200
    for file_id in (final["output_file_id"], final["error_file_id"]):
        assert (await each_site.content(file_id)).status_code == 404
    assert (await each_site.content(final["input_file_id"])).status_code == 200
    await each_site.sweep()
    assert await each_site.rows("SELECT id FROM files") == [(final["input_file_id"],)]
    for table in ("file_batches", "requests", "results", "batches"):
        assert await each_site.rows(f"SELECT * FROM {table}") == [], table


async def test_result_files_go_when_the_retention_is_over(site):
    batch = await site.validated(chats(1))
    await site.run(batch["id"])
    final = await ended(site, batch)
    site.clock.advance(7 * 86400 - 1)
    assert (await site.content(final["output_file_id"])).status_code == 200
    site.clock.advance(1)
    assert (await site.content(final["output_file_id"])).status_code == 404


@pytest.mark.parametrize("seconds", [3600, 2_592_000])
async def test_output_expires_after_is_the_retention_of_results_and_files(each_site, seconds):
    batch = await each_site.validated(chats(2), output_expires_after={"anchor": "created_at", "seconds": seconds})
    claimed = await each_site.claim(batch["id"])
    await each_site.end(success(claimed[0]), failure(claimed[1], "invalid_request", "no", 400))
    final = await ended(each_site, batch)
    assert final["results_expires_at"] == final["completed_at"] + seconds
    for file_id in (final["output_file_id"], final["error_file_id"]):
        file = (await each_site.call("GET", f"/v1/files/{file_id}")).json()
        assert file["expires_at"] == file["created_at"] + seconds == final["results_expires_at"]


async def test_result_files_are_no_uploads(site):
    site.set(max_file_storage_bytes=1000, max_uploads_per_hour=1)
    batch = await site.validated(jsonl(chat("a")))
    await site.run(batch["id"], b'{"choices": ["' + b"x" * 2000 + b'"]}')
    final = await ended(site, batch)
    assert final["status"] == "completed"
    site.set(max_uploads_per_hour=2)
    assert (await site.post_file(b"x" * 500)).status_code == 200


async def test_events_of_the_end_come_once_with_the_files(each_site):
    seen = []

    def hook(batch):
        seen.append((batch.status, batch.output_file_id, batch.error_file_id))
        return
        yield

    each_site.context.on_end.append(hook)
    batch = await each_site.validated(chats(1))
    await each_site.run(batch["id"])
    assert seen == []
    final = await ended(each_site, batch)
    assert seen == [("completed", final["output_file_id"], None)]


async def test_results_larger_than_a_piece(each_site):
    batch = await each_site.validated(chats(250))  # more than are read at once
    answer = json.dumps({"choices": ["y" * 3000]}).encode()
    claimed = await each_site.claim(batch["id"])
    await each_site.end(
        *[
            success(one, answer) if number % 3 else failure(one, "invalid_request", "z" * 3000, 400)
            for number, one in enumerate(claimed)
        ]
    )
    final = await ended(each_site, batch)
    output = await each_site.lines(final["output_file_id"])
    errors = await each_site.lines(final["error_file_id"])
    assert [line["custom_id"] for line in output] == [f"q-{number}" for number in range(250) if number % 3]
    assert [line["custom_id"] for line in errors] == [f"q-{number}" for number in range(250) if not number % 3]
    assert await each_site.rows(f"SELECT id FROM jobs WHERE kind = '{FINALIZE}'") == []
