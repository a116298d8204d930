"""How batches close and end: cancelled, expired, failed for their owner's sake, completed; and how they are deleted."""

import pytest
from ledger import balanced, rows_of
from scenario import (
    API,
    DAY,
    FINALIZER,
    POLICY,
    cancel,
    claim,
    create,
    daemon,
    delete,
    failed,
    finalize_all,
    get,
    owner,
    pass_time,
    prepare,
    purge_all,
    read_results,
    report,
    succeeded,
    sweep,
    take_over,
    to_retry,
    upload,
)  # fmt: skip

from fibatchd.domain import states
from fibatchd.store import accounts, batches, ending
from fibatchd.store.interface import NOW, Query


async def expire(store, clock, batch_id, seconds=DAY):
    await pass_time(store, clock, seconds)
    await store.write(ending.expire, batch_id, POLICY)


async def fail(store, batch_id):
    await store.write(ending.fail, batch_id, "owner_unauthorized", "The API key was revoked", POLICY)


async def test_a_cancelled_batch_lets_what_runs_finish(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada)
    (running,) = await claim(store, worker, count=1)
    now = await cancel(store, ada, batch.id)
    assert (now.status, now.cancelling_at, now.cancelled_at) == (states.CANCELLING, clock.now, None)
    assert (now.cancelled, now.running, now.queued) == (2, 1, 0)
    await balanced(store)
    await pass_time(store, clock, 4)
    await report(store, succeeded(running))
    now = await get(store, ada, batch.id)
    assert (now.status, now.cancelled_at, now.completed) == (states.CANCELLED, clock.now, 1)
    assert [r.status for r in await read_results(store, batch)] == ["completed", "cancelled", "cancelled"]
    await balanced(store)


async def test_a_batch_of_which_nothing_runs_is_cancelled_at_once(store, clock):
    ada = await owner(store)
    batch = await create(store, ada)
    now = await cancel(store, ada, batch.id)
    assert (now.status, now.cancelling_at, now.cancelled_at, now.cancelled) == ("cancelled", clock.now, clock.now, 3)
    assert [r.failure.code for r in await read_results(store, batch)] == ["batch_cancelled"] * 3
    await balanced(store)


async def test_cancelling_again_or_too_late_changes_nothing(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada)
    await claim(store, worker, count=1)
    first = await cancel(store, ada, batch.id)
    clock.advance(1)
    assert await cancel(store, ada, batch.id) == first
    done = await create(store, ada, refused=3)
    assert await cancel(store, ada, done.id) == done
    assert await cancel(store, await owner(store, "eve"), batch.id) is None


async def test_a_cancelled_batch_writes_its_files_while_cancelling(store, clock):
    ada, worker = await owner(store), await daemon(store)
    reserved = await upload(store, ada)
    await prepare(store, reserved)
    now = await cancel(store, ada, reserved.batch_id)
    assert (now.status, now.finalizing_at) == (states.CANCELLING, None)
    await balanced(store)
    assert await cancel(store, ada, now.id) == now
    assert await finalize_all(store, worker) == 1
    assert (await get(store, ada, now.id)).status == states.CANCELLED
    await balanced(store)


async def test_the_files_of_a_batch_are_asked_for_once(store):
    """A late result that is refused may not wake a second finalizer."""
    ada, gone, worker = await owner(store), await daemon(store), await daemon(store)
    reserved = await upload(store, ada)
    await prepare(store, reserved)
    late = await claim(store, gone)
    await cancel(store, ada, reserved.batch_id)
    await take_over(store, gone)
    assert await report(store, *[succeeded(c) for c in late]) == 0
    await balanced(store)
    assert await finalize_all(store, worker) == 1


async def test_a_file_batch_cancelled_before_it_was_read_writes_none(store):
    ada, worker = await owner(store), await daemon(store)
    reserved = await upload(store, ada)
    assert (await cancel(store, ada, reserved.batch_id)).status == states.CANCELLED
    assert await finalize_all(store, worker) == 0


async def test_what_has_not_started_expires(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada)
    running, waiting = await claim(store, worker, count=2)
    await report(store, to_retry(waiting, 2 * DAY))
    await expire(store, clock, batch.id, DAY - 1)
    assert (await get(store, ada, batch.id)).closed_as is None
    await expire(store, clock, batch.id, 1)
    now = await get(store, ada, batch.id)
    assert (now.status, now.closed_as, now.expired, now.running) == (states.IN_PROGRESS, "expired", 2, 1)
    await balanced(store)
    await pass_time(store, clock, 60)
    await report(store, succeeded(running))
    now = await get(store, ada, batch.id)
    assert (now.status, now.expired_at, now.completed, now.expired) == (states.EXPIRED, clock.now, 1, 2)
    listed = await read_results(store, batch)
    assert [r.status for r in listed] == ["completed", "expired", "expired"]
    assert [r.failure and r.failure.code for r in listed] == [None, "batch_expired", "batch_expired"]
    assert "timeout: no answer in time" in listed[1].failure.message
    await balanced(store)


async def test_a_window_that_closes_while_all_that_is_left_runs_expires_nothing(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m", "m"])
    running = await claim(store, worker)
    await expire(store, clock, batch.id)
    await report(store, *[succeeded(c) for c in running])
    assert (await get(store, ada, batch.id)).status == states.COMPLETED
    await balanced(store)


async def test_a_retry_after_the_window_closed_expires(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m", "m"])
    first, second = await claim(store, worker)
    await expire(store, clock, batch.id)
    await report(store, succeeded(first), to_retry(second))
    now = await get(store, ada, batch.id)
    assert (now.status, now.expired) == (states.EXPIRED, 1)
    await balanced(store)


async def test_a_batch_fails_with_its_owner(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada)
    (running,) = await claim(store, worker, count=1)
    await fail(store, batch.id)
    await balanced(store)
    await report(store, succeeded(running))
    now = await get(store, ada, batch.id)
    assert (now.status, now.failed_at, now.failed, now.completed) == (states.FAILED, clock.now, 2, 1)
    assert (now.error_code, now.error_message) == ("owner_unauthorized", "The API key was revoked")
    listed = await read_results(store, batch)
    assert [r.status for r in listed] == ["completed", "failed", "failed"]
    assert listed[1].failure.code == "batch_failed"
    assert "The API key was revoked" in listed[1].failure.message
    await balanced(store)


@pytest.mark.parametrize("how", ["revoked", "key expired", "suspended", "deleted"])
async def test_the_housekeeping_finds_owners_that_are_no_longer_valid(store, clock, how):
    ada = await owner(store, expires_in=60.0 if how == "key expired" else None)
    other = await create(store, await owner(store, "eve"))
    batch = await create(store, ada)
    reserved = await upload(store, ada)
    await sweep(store)
    assert (await get(store, ada, batch.id)).status == states.VALIDATING
    if how == "revoked":
        await store.write(accounts.revoke_key, ada.key.id)
    elif how == "key expired":
        clock.advance(60)
    elif how == "suspended":
        await store.write(accounts.set_account_status, ada.account.id, "suspended")
    else:
        await store.write(accounts.delete_account, ada.account.id)

    def ends():
        return (yield Query("SELECT id, status FROM batches ORDER BY id"))

    await sweep(store)
    assert await store.read(ends) == sorted(
        [(other.id, "validating"), (batch.id, "failed"), (reserved.batch_id, "failed")]
    )
    await balanced(store)


async def test_cancelled_comes_before_failed_before_expired(store, clock):
    ada, worker = await owner(store), await daemon(store)
    one, two = await create(store, ada, ["a", "a"]), await create(store, ada, ["b", "b"])
    running = [*await claim(store, worker, "a", 1), *await claim(store, worker, "b", 1)]
    await expire(store, clock, one.id)
    await cancel(store, ada, one.id)
    await fail(store, two.id)
    await expire(store, clock, two.id)
    await report(store, *[succeeded(c) for c in running])
    assert (await get(store, ada, one.id)).status == states.CANCELLED
    assert (await get(store, ada, two.id)).status == states.FAILED
    assert [r.status for r in await read_results(store, one)] == ["completed", "expired"]
    await balanced(store)


async def test_what_is_over_does_not_expire_fail_or_end_again(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"])
    await report(store, *[failed(c) for c in await claim(store, worker)])
    done = await get(store, ada, batch.id)
    await expire(store, clock, batch.id)
    await fail(store, batch.id)

    def end_again():
        ((now,),) = yield NOW
        yield from ending.end((yield from batches.lock(batch.id)), POLICY, now)

    await store.write(end_again)
    assert await get(store, ada, batch.id) == done


@pytest.mark.parametrize("finalizer", [None, FINALIZER])
async def test_a_batch_whose_last_request_is_lost_for_good_ends(store, finalizer):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"], finalizer=finalizer)
    await claim(store, worker)
    await take_over(store, worker, max_attempts=1)
    now = await get(store, ada, batch.id)
    assert now.status == (states.COMPLETED if finalizer is None else states.FINALIZING)
    assert now.failed == 1
    await balanced(store)


async def test_a_deleted_batch_is_gone_for_readers_and_its_rows_soon_after(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch, other = await create(store, ada, ["m"] * 5), await create(store, ada, ["n"] * 2)
    await report(store, *[succeeded(c) for c in await claim(store, worker)])
    gone = []

    def hook(deleted):
        gone.append(deleted.id)
        yield from ()

    policy = ending.Policy(1.0, 1.0, on_delete=(hook,))
    assert await store.write(batches.delete, ada.account.id, batch.id, API, policy) is True
    assert gone == [batch.id]
    assert await get(store, ada, batch.id) is None
    assert await delete(store, ada, batch.id) is None
    assert await cancel(store, ada, batch.id) is None
    assert (await store.read(batches.page, ada.account.id, API, limit=10))[0] == [other]
    assert await purge_all(store, worker) == 1

    left = await rows_of(store, "batches", "lanes", "requests", "request_bodies", "results", "jobs")
    assert left == [1, 1, 2, 2, 0, 0]


async def test_a_batch_is_not_deleted_while_a_request_of_it_runs(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada)
    running = await claim(store, worker, count=1)
    assert await delete(store, ada, batch.id) is False
    await cancel(store, ada, batch.id)
    assert await delete(store, ada, batch.id) is False
    await report(store, succeeded(running[0]))
    assert await delete(store, await owner(store, "eve"), batch.id) is None
    assert await delete(store, ada, batch.id) is True


@pytest.mark.parametrize("when", ["waiting", "unread", "finalizing"])
async def test_an_unfinished_batch_of_which_nothing_runs_can_be_deleted(store, when):
    ada, worker = await owner(store), await daemon(store)
    ended = []

    def hook(batch):
        ended.append(batch.id)
        yield from ()

    if when == "waiting":
        batch_id = (await create(store, ada)).id
    else:
        reserved = await upload(store, ada)
        batch_id = reserved.batch_id
        if when == "finalizing":
            await prepare(store, reserved)
            await report(store, *[succeeded(c) for c in await claim(store, worker)])
    assert await delete(store, ada, batch_id) is True
    assert await claim(store, worker) == []
    await balanced(store)
    await finalize_all(store, worker)  # a finalizer that comes late ends nothing and tells nobody

    def end_late():
        ((now,),) = yield NOW
        yield from ending.end((yield from batches.lock(batch_id)), ending.Policy(1.0, 1.0, on_end=(hook,)), now)

    await store.write(end_late)
    assert ended == []
    await purge_all(store, worker)
    await balanced(store)


async def test_a_purge_goes_in_chunks_and_spares_the_neighbours(store, monkeypatch):
    monkeypatch.setattr("fibatchd.store.admission.REMOVE_CHUNK", 2)
    ada, worker = await owner(store), await daemon(store)
    before, batch, after = [await create(store, ada, ["m"] * 5) for _ in range(3)]
    await delete(store, ada, batch.id)
    assert await purge_all(store, worker) == 1
    for spared in (before, after):
        assert len(await read_results(store, spared)) == 5
    assert await read_results(store, batch) == []


async def test_finished_batches_go_when_their_time_is_over(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"])
    unfinished = await create(store, ada, ["n"], window_s=30 * DAY)
    await report(store, *[succeeded(c) for c in await claim(store, worker)])
    await pass_time(store, clock, POLICY.retention_s - 1)
    await sweep(store)
    assert await get(store, ada, batch.id)
    await pass_time(store, clock, 1)
    await sweep(store)
    assert await get(store, ada, batch.id) is None
    assert await get(store, ada, unfinished.id)
    assert await purge_all(store, worker) == 1
    await balanced(store)
