"""Running again what did not succeed of a batch from a file: the new batch is one from a file, too."""

from dataclasses import replace

from api import failure, success
from fibatchd_plugins.files.validation import VALIDATE
from site_files import chats

from fibatchd.store.interface import Query


async def half_failed(site, filename="in.jsonl", **members):
    """An ended file batch whose requests q-1 and q-3 failed, of five."""
    file = await site.upload(chats(5), filename=filename)
    batch = (await site.post_batch(file["id"], **members)).json()
    await site.work(VALIDATE)
    claimed = await site.claim(batch["id"])
    await site.end(*[failure(c, "timeout", "late", 504) if n in (1, 3) else success(c) for n, c in enumerate(claimed)])
    await site.work()
    return await site.get(batch["id"])


async def rerun(site, batch, status=200, **options):
    answer = await site.call("POST", f"/v1/batches/{batch['id']}/rerun", **options)
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.json()["error"]


async def file_ids(site):
    return [file["id"] for file in (await site.call("GET", "/v1/files?purpose=batch")).json()["data"]]


async def test_the_failed_lines_become_a_file_and_that_a_batch(each_site):
    site = each_site
    old = await half_failed(site, "frågor.jsonl", metadata={"run": "7"})
    new = await rerun(site, old)
    assert (new["kind"], new["status"], new["waiting"]["reason"]) == ("file", "validating", "validating")
    assert (new["label"], new["rerun_of"], new["metadata"]) == ("rerun_frågor.jsonl", old["id"], {"run": "7"})
    file = (await site.call("GET", f"/v1/files/{new['input_file_id']}")).json()
    assert (file["filename"], file["purpose"], file["status"]) == ("rerun_frågor.jsonl", "batch", "processed")
    assert [line["custom_id"] for line in await site.lines(new["input_file_id"])] == ["q-1", "q-3"]
    await site.work(VALIDATE)
    await site.run(new["id"])
    await site.work()
    done = await site.get(new["id"])
    assert (done["status"], done["request_counts"]) == ("completed", {"total": 2, "completed": 2, "failed": 0})
    assert [line["custom_id"] for line in await site.lines(done["output_file_id"])] == ["q-1", "q-3"]


async def test_a_rerun_of_a_rerun_is_not_named_twice(site):
    old = await half_failed(site, "rerun_in.jsonl", output_expires_after={"anchor": "created_at", "seconds": 7200})
    new = await rerun(site, old)
    assert new["label"] == "rerun_in.jsonl"
    await site.work(VALIDATE)
    await site.run(new["id"])
    await site.work()
    done = await site.get(new["id"])
    assert done["results_expires_at"] == done["completed_at"] + 7200


async def test_whole_or_not_at_all(each_site):
    site = each_site
    old = await half_failed(site)
    before = await file_ids(site)
    key = {"idempotency-key": "again"}
    site.set(max_unfinished_batches=0)
    assert (await rerun(site, old, 429, headers=key))["code"] == "too_many_unfinished_batches"
    site.set(max_unfinished_batches=10, max_uploads_per_hour=1)
    assert (await rerun(site, old, 429, headers=key))["code"] == "too_many_uploads"
    site.set(max_uploads_per_hour=60, max_file_storage_bytes=600)
    assert (await rerun(site, old, 413, headers=key))["code"] == "file_storage_full"
    site.set(max_file_storage_bytes=1 << 20)
    assert await file_ids(site) == before
    assert await site.context.store.read(staged) == 0
    new = await rerun(site, old, headers=key)
    assert await file_ids(site) == [new["input_file_id"], *before]
    assert (await rerun(site, old, headers=key))["id"] == new["id"]
    assert await file_ids(site) == [new["input_file_id"], *before]


def staged():
    ((count,),) = yield Query("SELECT COUNT(*) FROM files WHERE state = 'staging'")
    return count


async def test_a_batch_whose_file_was_refused_has_nothing_to_run_again(site):
    batch = await site.validated(b"no JSON\n")
    assert batch["status"] == "failed"
    assert (await rerun(site, batch, 409))["code"] == "nothing_to_rerun"


async def test_the_switch_closes_it(site):
    old = await half_failed(site)
    site.context.config = replace(site.context.config, extensions={"files": False})
    assert (await rerun(site, old, 400))["code"] == "file_batches_disabled"


async def test_the_list_is_searched_by_the_files_name(each_site):
    old = await half_failed(each_site, "Quarterly.jsonl")
    (found,) = (await each_site.call("GET", "/v1/account/batches?q=quarterly")).json()["data"]
    assert (found["id"], found["label"]) == (old["id"], "Quarterly.jsonl")
