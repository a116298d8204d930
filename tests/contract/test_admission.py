"""How batches come in: staged unseen, published whole, refused at a limit, given up without a trace."""

from dataclasses import replace

import pytest
import trio
from ledger import balanced, rows_of
from scenario import (
    API,
    DAY,
    LIMITS,
    POLICY,
    Owner,
    claim,
    counts,
    create,
    daemon,
    delete,
    get,
    new_batch,
    owner,
    pass_time,
    prepare,
    purge_all,
    read_results,
    requests_for,
    stage,
    sweep,
    upload,
)  # fmt: skip

from fibatchd.domain import states
from fibatchd.errors import StoreConflict, StoreUnavailable
from fibatchd.store import admission, batches, sweeps
from fibatchd.store.admission import Limits, OverLimit


async def staged(store, who: Owner, models=("m", "m", "m"), appended=None):
    new, requests = new_batch(who), requests_for(models)
    reserved = await store.write(stage, new, "staging", requests)
    assert await store.write(admission.append, reserved, 0, requests[:appended])
    return new, reserved, requests


async def test_a_created_batch_reads_as_it_was_submitted(store, clock):
    ada = await owner(store)
    batch = await create(store, ada, ["a", "b", "a"], metadata='{"x": "y"}')
    assert batch == await get(store, ada, batch.id)
    assert (batch.status, batch.total, batch.queued, batch.running) == (states.VALIDATING, 3, 3, 0)
    assert (batch.created_at, batch.expires_at) == (clock.now, clock.now + DAY)
    assert batch.metadata == '{"x": "y"}'
    assert batch.ended_at is batch.delete_at is batch.in_progress_at is None
    listed = await read_results(store, batch)
    assert [r.custom_id for r in listed] == ["q-0", "q-1", "q-2"]
    assert [r.number for r in listed] == list(range(batch.first_number, batch.first_number + 3))
    assert {r.status for r in listed} == {"queued"}
    await balanced(store)


async def test_numbers_grow_from_batch_to_batch(store):
    ada = await owner(store)
    first, second = await create(store, ada), await create(store, ada)
    assert second.first_number == first.first_number + first.total
    assert second.id > first.id


async def test_a_staged_batch_is_seen_by_nobody(store):
    ada = await owner(store)
    new, *_ = await staged(store, ada)
    assert await get(store, ada, new.id) is None
    assert await store.read(batches.page, ada.account.id, API, limit=10) == ([], False)
    assert await claim(store, await daemon(store)) == []
    assert await delete(store, ada, new.id) is None


async def test_requests_refused_by_their_own_check_never_run(store):
    ada = await owner(store)
    batch = await create(store, ada, refused=2)
    assert (batch.queued, batch.failed) == (1, 2)
    assert [c.number for c in await claim(store, await daemon(store))] == [batch.first_number + 2]
    assert [r.failure and r.failure.code for r in await read_results(store, batch)] == ["invalid_request"] * 2 + [None]
    await balanced(store)


async def test_a_batch_of_refused_requests_ends_as_it_is_created(store, clock):
    batch = await create(store, await owner(store), refused=3)
    assert (batch.status, batch.completed_at, batch.ended_at) == (states.COMPLETED, clock.now, clock.now)
    await balanced(store)


async def test_limits_count_what_is_unfinished_and_visible(store):
    ada, eve = await owner(store, "ada"), await owner(store, "eve")
    await staged(store, ada)
    limits = Limits(batches=2, requests=5)
    first = await create(store, ada, limits=limits)
    assert await create(store, ada, limits=limits) == OverLimit("requests", 5)
    await create(store, ada, ["m", "m"], limits=limits)
    assert await create(store, ada, ["m"], limits=limits) == OverLimit("batches", 2)
    await create(store, eve, limits=limits)
    assert await delete(store, ada, first.id) is True
    await create(store, ada, limits=limits)
    await create(store, eve, refused=3, limits=limits)
    await create(store, eve, ["m", "m"], limits=limits)
    await balanced(store)


async def test_a_file_batch_counts_as_unfinished_before_it_is_read(store):
    ada = await owner(store)
    await upload(store, ada)
    assert await create(store, ada, limits=Limits(1, 100)) == OverLimit("batches", 1)


async def test_creates_that_race_do_not_pass_the_limit_together(store):
    ada = await owner(store)
    made = []

    async def one():
        made.append(await create(store, ada, limits=Limits(batches=3, requests=100)))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(one)
    assert sum(isinstance(m, OverLimit) for m in made) == 5
    await balanced(store)


async def test_what_was_given_up_is_purged_to_the_last_row(store):
    ada, worker = await owner(store), await daemon(store)
    new, reserved, requests = await staged(store, ada, appended=2)
    await store.write(admission.abandon, new.id)
    assert await store.write(admission.append, reserved, 2, requests[2:]) is False
    with pytest.raises(StoreUnavailable):
        await store.write(admission.publish, new, reserved, *counts(requests), LIMITS, POLICY, None)
    assert await purge_all(store, worker) == 1
    assert await store.write(admission.append, reserved, 2, requests[2:]) is False
    assert await rows_of(store, "batches", "requests", "request_bodies", "lanes") == [0, 0, 0, 0]


async def test_giving_up_a_batch_that_was_published_leaves_it_alone(store):
    """A create call that is cancelled cannot know whether its last transaction was done."""
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada)
    await store.write(admission.abandon, batch.id)
    assert await purge_all(store, worker) == 0
    await store.write(sweeps.purge, batch.id)
    assert await get(store, ada, batch.id) == batch
    assert len(await read_results(store, batch)) == 3


async def test_staged_batches_that_are_old_are_found(store, clock):
    ada = await owner(store)
    old, *_ = await staged(store, ada)
    clock.advance(100)
    new, *_ = await staged(store, ada)
    assert await store.read(sweeps.stale_staging, 50) == [old.id]
    assert sorted(await store.read(sweeps.stale_staging, 50, all_of_them=True)) == [old.id, new.id]
    await store.write(admission.abandon, old.id)
    assert await store.read(sweeps.stale_staging, 50) == []


async def test_a_file_batch_runs_only_once_it_is_prepared(store, clock):
    ada, worker = await owner(store), await daemon(store)
    reserved = await upload(store, ada)
    batch = await get(store, ada, reserved.batch_id)
    assert (batch.status, batch.total, batch.prepared) == (states.VALIDATING, 0, 0)
    assert await read_results(store, batch) == []
    assert await claim(store, worker) == []
    assert await prepare(store, reserved)
    assert len(await claim(store, worker)) == 3
    assert await prepare(store, reserved) is False
    await balanced(store)


@pytest.mark.parametrize("how", ["cancelled", "expired", "deleted"])
async def test_a_file_batch_closed_while_it_is_read_runs_nothing(store, clock, how):
    ada, worker = await owner(store), await daemon(store)
    reserved = await upload(store, ada)
    if how == "expired":
        await pass_time(store, clock, DAY)
        await sweep(store)
    elif how == "cancelled":
        await store.write(batches.cancel, ada.account.id, reserved.batch_id, API, POLICY)
    else:
        assert await delete(store, ada, reserved.batch_id)
    assert await prepare(store, reserved) is False
    assert await store.write(admission.append, reserved, 0, requests_for(["m"])) is False
    assert await claim(store, worker) == []
    batch = await get(store, ada, reserved.batch_id)
    assert (batch.status if batch else "deleted") == how
    await balanced(store)


async def test_an_id_that_exists_is_a_conflict_and_changes_nothing(store):
    ada = await owner(store)
    batch = await create(store, ada)
    with pytest.raises(StoreConflict):
        await store.write(admission.insert, replace(new_batch(ada), id=batch.id), "staging")
    assert await get(store, ada, batch.id) == batch
