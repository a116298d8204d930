"""The housekeeping's lists are bounded and right at the edges, and a model that is gone fails what waits for it."""

from ledger import balanced
from scenario import DAY, POLICY, claim, create, daemon, delete, get, owner, read_results, report, to_retry

from fibatchd.domain import states
from fibatchd.domain.requests import Failure
from fibatchd.store import accounts, admission, batches, claims, jobs, sweeps
from fibatchd.store.interface import NOW, Query

GONE = Failure("model_not_found", "The model is gone", 404)


async def test_lists_are_no_longer_than_asked_for(store, clock):
    ada = await owner(store)
    made = [await create(store, ada) for _ in range(3)]
    assert await store.read(sweeps.due_to_expire, 10) == []
    clock.advance(DAY)
    assert await store.read(sweeps.due_to_expire, 2) == [b.id for b in made[:2]]
    assert await store.read(sweeps.due_to_expire, 10) == [b.id for b in made]
    for batch in made:
        await delete(store, ada, batch.id)
    assert await store.read(sweeps.due_to_expire, 10) == []


async def test_all_that_is_due_is_found_together(store, clock):
    ada, bob, eve = await owner(store), await owner(store, "bob"), await owner(store, "eve")
    late, orphan = await create(store, ada), await create(store, bob)
    done = await create(store, eve, refused=3)
    clock.advance(DAY / 2)
    await create(store, ada)
    await store.write(accounts.revoke_key, bob.key.id)
    await store.write(accounts.delete_account, eve.account.id)
    clock.advance(DAY / 2)
    found = await store.read(sweeps.due, 10)
    assert found.to_expire == [late.id, orphan.id]
    assert found.without_owner == [orphan.id]
    assert found.to_delete == [done.id]


async def test_deleting_by_retention_leaves_alone_what_is_not_over(store):
    ada = await owner(store)
    batch = await create(store, ada)
    await store.write(sweeps.delete_ended, batch.id, POLICY)
    assert await get(store, ada, batch.id) == batch
    done = await create(store, ada, refused=3)
    await store.write(sweeps.delete_ended, done.id, POLICY)
    await store.write(sweeps.delete_ended, done.id, POLICY)
    assert await get(store, ada, done.id) is None


async def test_a_lane_whose_model_is_gone_fails_in_pieces_and_alone(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["gone"] * 5 + ["m"])
    await claim(store, worker, "gone", 1)
    ((lane, *_), _) = await store.read(claims.candidates, "gone")
    failed = []
    while count := await store.write(sweeps.fail_lane, lane.lane, GONE, 3, POLICY):
        failed.append(count)
        await balanced(store)
    assert failed == [3, 1]
    now = await get(store, ada, batch.id)
    assert (now.failed, now.running, now.queued, now.status) == (4, 1, 1, states.IN_PROGRESS)
    assert [r.failure for r in await read_results(store, batch)] == [None, GONE, GONE, GONE, GONE, None]


async def test_failing_the_last_lane_ends_the_batch(store, clock):
    ada = await owner(store)
    batch = await create(store, ada, ["gone"] * 2)
    ((lane,), _) = await store.read(claims.candidates, "gone")
    assert await store.write(sweeps.fail_lane, lane.lane, GONE, 10, POLICY) == 2
    now = await get(store, ada, batch.id)
    assert (now.status, now.failed) == (states.COMPLETED, 2)
    await balanced(store)


async def test_a_lane_of_a_closed_batch_is_left_as_it_was_closed(store):
    ada = await owner(store)
    batch = await create(store, ada, ["gone"] * 2)
    ((lane,), _) = await store.read(claims.candidates, "gone")
    await store.write(batches.cancel, ada.account.id, batch.id, "batches", POLICY)
    assert await store.write(sweeps.fail_lane, lane.lane, GONE, 10, POLICY) == 0
    assert await store.write(sweeps.fail_lane, lane.lane + 100, GONE, 10, POLICY) == 0
    assert {r.status for r in await read_results(store, batch)} == {"cancelled"}
    await balanced(store)


def tidy_up():
    ((now,),) = yield NOW
    yield from jobs.enqueue("tidy", "everything", now)


async def test_what_was_put_off_by_a_clock_that_was_ahead_is_due_at_once(store, clock):
    ada, worker = await owner(store), await daemon(store)
    await create(store, ada, ["m"] * 4)
    soon, *later = await claim(store, worker, count=4)
    await report(store, to_retry(soon, 50))
    clock.advance(10_000)
    await report(store, *(to_retry(claimed, 50) for claimed in later))
    await store.write(tidy_up)
    clock.advance(-10_000)
    assert await claim(store, worker) == []
    assert await store.write(jobs.take, "tidy", worker) is None
    assert [await store.write(sweeps.bring_forward, 100, 2) for _ in range(3)] == [3, 1, 0], "two requests, and a job"
    assert {claimed.number for claimed in await claim(store, worker)} == {claimed.number for claimed in later}
    assert await store.write(jobs.take, "tidy", worker) is not None


def left():
    ((count,),) = yield Query("SELECT COUNT(*) FROM request_bodies")
    return count


async def test_a_purge_takes_no_more_bytes_at_once_than_may_be(store, monkeypatch):
    ada = await owner(store)
    batch = await create(store, ada, ["m"] * 4)
    await delete(store, ada, batch.id)
    monkeypatch.setattr(admission, "REMOVE_BYTES", 1)
    found = []
    while await store.write(sweeps.purge, batch.id):
        found.append(await store.read(left))
    assert found == [3, 2, 1, 0]
