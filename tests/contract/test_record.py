"""What came of an attempt: accepted once, by its lease; counted in the batch, its lanes and its owner's books."""

import pytest
from ledger import balanced
from msgspec.structs import replace
from scenario import (
    ANSWER,
    COST,
    FINALIZER,
    USAGE,
    cancel,
    claim,
    create,
    daemon,
    failed,
    finalize_all,
    get,
    given_back,
    owner,
    pass_time,
    prepare,
    read_results,
    report,
    succeeded,
    take_over,
    to_retry,
    upload,
)  # fmt: skip

from fibatchd.domain import states
from fibatchd.domain.requests import Failure
from fibatchd.store.ending import Policy
from fibatchd.store.interface import Query


async def test_a_success_keeps_every_byte_and_counts(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m", "m"])
    first, _ = await claim(store, worker)
    body = bytes(range(256)) * 300
    outcome = succeeded(first, body)
    assert await report(store, outcome) == 1
    result = (await read_results(store, batch))[0]
    assert (result.status, result.status_code, result.body) == ("completed", 200, body)
    assert (result.request_id, result.failure) == (outcome.request_id, None)
    now = await get(store, ada, batch.id)
    assert (now.completed, now.running, now.cost, now.cost_unknown) == (1, 1, COST, 0)
    assert (now.input_tokens, now.cached_tokens, now.output_tokens, now.reasoning_tokens) == (
        USAGE.input_tokens, USAGE.cached_tokens, USAGE.output_tokens, USAGE.reasoning_tokens
    )  # fmt: skip
    await balanced(store)


async def test_a_failure_keeps_its_reason(store):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m", "m"])
    first, _ = await claim(store, worker)
    outcome = failed(first)
    await report(store, outcome)
    result = (await read_results(store, batch))[0]
    assert (result.status, result.status_code, result.body) == ("failed", None, None)
    assert (result.failure, result.request_id) == (outcome.failure, outcome.request_id)
    await balanced(store)


async def test_a_reason_that_quotes_what_no_database_takes_is_stored_all_the_same(store):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"])
    (only,) = await claim(store, worker)
    await report(store, replace(failed(only), failure=Failure("invalid_request", "a\0b\ud800c", 400)))
    (result,) = await read_results(store, batch)
    assert result.failure == Failure("invalid_request", "a\ufffdb\ufffdc", 400)


async def test_a_retry_waits_and_shows_what_went_wrong(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"])
    (first,) = await claim(store, worker)
    outcome = to_retry(first, 10.0)
    await report(store, outcome)
    (result,) = await read_results(store, batch)
    assert (result.status, result.failure, result.request_id) == ("queued", outcome.failure, outcome.request_id)
    now = await get(store, ada, batch.id)
    assert (now.queued, now.running, now.cost_unknown) == (1, 0, 1)
    await pass_time(store, clock, 9.9)
    assert await claim(store, worker) == []
    await pass_time(store, clock, 0.2)
    (second,) = await claim(store, worker)
    assert second.attempt == 2
    assert (await read_results(store, batch))[0].failure == outcome.failure
    await report(store, succeeded(second))
    (result,) = await read_results(store, batch)
    assert (result.status, result.failure) == ("completed", None)
    await balanced(store)


async def test_what_was_not_sent_is_as_it_was(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"])
    (first,) = await claim(store, worker)
    earlier = to_retry(first, 10.0)
    await report(store, earlier)
    await pass_time(store, clock, 10)
    before = await read_results(store, batch), await get(store, ada, batch.id)
    (second,) = await claim(store, worker)
    assert await report(store, given_back(second)) == 1
    assert (await read_results(store, batch), await get(store, ada, batch.id)) == before
    assert (await claim(store, worker))[0].attempt == 2
    await balanced(store)


async def test_what_was_not_sent_may_be_given_back_for_later(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"])
    (first,) = await claim(store, worker)
    await report(store, replace(given_back(first), retry_in=5.0))
    assert (await get(store, ada, batch.id)).queued == 1
    assert await claim(store, worker) == []
    await pass_time(store, clock, 5)
    assert (await claim(store, worker))[0].attempt == 1
    await balanced(store)


async def test_a_result_is_accepted_once(store):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m", "m"])
    first, second = await claim(store, worker)
    assert await report(store, succeeded(first, b"1"), succeeded(first, b"2")) == 1
    assert await report(store, succeeded(first, b"3"), failed(second)) == 1
    assert [r.status for r in await read_results(store, batch)] == ["completed", "failed"]
    assert (await get(store, ada, batch.id)).cost == COST
    await balanced(store)


async def test_a_result_without_its_lease_is_refused(store, clock):
    ada, lost, worker = await owner(store), await daemon(store, "lost"), await daemon(store)
    batch = await create(store, ada, ["m", "m"])
    late, _ = await claim(store, lost)
    assert await take_over(store, lost) == 2
    assert await report(store, succeeded(late)) == 0
    again, _ = await claim(store, worker)
    assert (again.number, again.attempt) == (late.number, 2)
    assert await report(store, succeeded(late)) == 0
    assert await report(store, replace(succeeded(late), claimed=replace(late, lease=worker))) == 0
    assert (await get(store, ada, batch.id)).running == 2
    await balanced(store)


async def test_a_late_result_in_one_group_with_the_fresh_one_of_its_request_counts_nothing(store):
    """A daemon that lost its leases and registered anew may hold both, and report them together."""
    ada, lost, worker = await owner(store), await daemon(store, "lost"), await daemon(store)
    batch = await create(store, ada, ["m", "m"])
    late, _ = await claim(store, lost)
    await take_over(store, lost)
    fresh, other = await claim(store, worker)
    for group in ([succeeded(late, b"late"), succeeded(fresh, b"fresh")], [failed(late), succeeded(other, b"other")]):
        assert await report(store, *group) == 1
    assert [r.body for r in await read_results(store, batch)] == [b"fresh", b"other"]
    now = await get(store, ada, batch.id)
    assert (now.status, now.completed, now.failed, now.cost, now.cost_unknown) == ("completed", 2, 0, 2 * COST, 2)
    await balanced(store)


async def test_which_of_a_requests_outcomes_is_fresh_does_not_hang_on_whose_lease_is_younger(store):
    ada, worker, gone = await owner(store), await daemon(store), await daemon(store, "younger")
    batch = await create(store, ada, ["m"])
    late = await claim(store, gone)
    await take_over(store, gone)
    fresh = await claim(store, worker)
    assert await report(store, succeeded(fresh[0], b"fresh"), succeeded(late[0], b"late")) == 1
    assert [r.body for r in await read_results(store, batch)] == [b"fresh"]
    await balanced(store)


async def test_one_group_counts_in_many_batches_and_lanes(store):
    ada, eve, worker = await owner(store, "ada"), await owner(store, "eve"), await daemon(store)
    first, second = await create(store, ada, ["m", "n", "m"]), await create(store, eve, ["n", "n"])
    taken = [*await claim(store, worker, "m"), *await claim(store, worker, "n")]
    mine = [c for c in taken if c.batch_id == first.id]
    assert await report(store, succeeded(mine[0]), to_retry(mine[1]), *[failed(c) for c in taken if c not in mine]) == 4
    now = await get(store, ada, first.id)
    assert (now.completed, now.queued, now.running, now.status) == (1, 1, 1, states.IN_PROGRESS)
    assert (await get(store, eve, second.id)).status == states.COMPLETED
    await balanced(store)


async def test_the_last_result_ends_the_batch_in_its_own_transaction(store, clock):
    ada, worker = await owner(store), await daemon(store)
    ended = []

    def hook(batch):
        ended.append(batch)
        yield Query("INSERT INTO drained_models (model, since) VALUES (?, ?)", (batch.id, batch.ended_at))

    policy = Policy(100.0, 10.0, on_end=(hook,))
    batch = await create(store, ada, ["m", "m"], policy=policy)
    first, second = await claim(store, worker)
    await report(store, succeeded(first), policy=policy)
    assert ended == []
    await pass_time(store, clock, 3)
    await report(store, failed(second), policy=policy)
    now = await get(store, ada, batch.id)
    assert (now.status, now.completed_at, now.ended_at) == (states.COMPLETED, clock.now, clock.now)
    assert now.delete_at == clock.now + 100
    assert ended == [now]

    def outbox():
        return (yield Query("SELECT model, since FROM drained_models"))

    assert await store.read(outbox) == [(batch.id, clock.now)]
    await balanced(store)


async def test_an_end_that_cannot_be_written_takes_the_result_with_it(store):
    ada, worker = await owner(store), await daemon(store)

    def broken(batch):
        yield Query("SELECT 1")
        raise ZeroDivisionError

    batch = await create(store, ada, ["m"])
    (first,) = await claim(store, worker)
    with pytest.raises(ZeroDivisionError):
        await report(store, succeeded(first), policy=Policy(1.0, 1.0, on_end=(broken,)))
    assert (await get(store, ada, batch.id)).running == 1
    assert await report(store, succeeded(first)) == 1
    await balanced(store)


async def test_a_batch_with_files_to_write_is_finalized_before_it_ends(store, clock):
    ada, worker = await owner(store), await daemon(store)
    reserved = await upload(store, ada)
    await prepare(store, reserved)
    await report(store, *[succeeded(c) for c in await claim(store, worker)])
    now = await get(store, ada, reserved.batch_id)
    assert (now.status, now.finalizing_at, now.ended_at) == (states.FINALIZING, clock.now, None)
    assert await cancel(store, ada, now.id) == now
    await balanced(store)
    assert await finalize_all(store, worker) == 1
    now = await get(store, ada, reserved.batch_id)
    assert (now.status, now.finalizer) == (states.COMPLETED, FINALIZER)
    assert await finalize_all(store, worker) == 0
    await balanced(store)


async def test_a_retry_in_a_closed_batch_ends_as_the_batch_was_closed(store):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m", "m", "m"])
    running = await claim(store, worker, count=2)
    assert (await cancel(store, ada, batch.id)).status == states.CANCELLING
    outcome = to_retry(running[0])
    await report(store, outcome)
    await balanced(store)
    await report(store, given_back(running[1]))
    now = await get(store, ada, batch.id)
    assert (now.status, now.cancelled, now.queued) == (states.CANCELLED, 3, 0)
    listed = await read_results(store, batch)
    assert {r.status for r in listed} == {"cancelled"}
    assert listed[0].failure == Failure(
        "batch_cancelled",
        "The batch was cancelled before the request ran; its last attempt failed with timeout: no answer in time",
    )
    assert await claim(store, worker) == []
    await balanced(store)


async def test_an_unknown_cost_is_counted_and_not_added(store):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m", "m"])
    first, second = await claim(store, worker)
    await report(store, succeeded(first, cost=None), succeeded(second, ANSWER, 2**53 + 1))
    now = await get(store, ada, batch.id)
    assert (now.cost, now.cost_unknown) == (2**53 + 1, 1)
    await balanced(store)
