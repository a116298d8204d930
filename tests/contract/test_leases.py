"""Leases: renewed in time or lost for good, and what a lost daemon ran is run by others, its attempts counted."""

from ledger import balanced
from scenario import (
    MAX_ATTEMPTS,
    POLICY,
    cancel,
    claim,
    create,
    daemon,
    get,
    given_back,
    owner,
    read_results,
    report,
    succeeded,
    take_over,
)  # fmt: skip

from fibatchd.store import jobs, leases
from fibatchd.store.interface import Query


async def lost(store, **how):
    found, _ = await store.read(leases.lost_daemons, **how)
    return found


async def test_ids_are_never_used_again(store):
    first = await daemon(store)
    await take_over(store, first)
    assert await daemon(store) > first


async def test_a_lease_holds_while_it_is_renewed(store, clock):
    one, two = await daemon(store, "one"), await daemon(store, "two")
    for _ in range(3):
        clock.advance(leases.LEASE_S - 0.5)
        assert (await store.write(leases.renew, one, {})).held
    assert await lost(store) == [two]
    clock.advance(leases.LEASE_S)
    assert await lost(store) == [one, two]


async def test_a_clock_that_is_set_back_keeps_no_dead_daemon_alive(store, clock):
    one, two = await daemon(store, "one"), await daemon(store, "two")
    clock.advance(-10_000)
    assert (await store.write(leases.renew, one, {})).held
    assert await lost(store) == [two]
    assert not await store.write(leases.seize, one)
    assert await store.write(leases.seize, two)


async def test_a_lease_past_its_deadline_is_renewed_while_nobody_has_seized_it(store, clock):
    """After an outage of the database all are past their deadline, and what they run is still theirs."""
    ada, one, two = await owner(store), await daemon(store, "one"), await daemon(store, "two")
    await create(store, ada)
    (first, *_) = await claim(store, one, count=1)
    clock.advance(100)
    assert (await store.write(leases.renew, one, {})).held
    assert not await store.write(leases.seize, one)
    assert await report(store, succeeded(first)) == 1
    assert len(await claim(store, one, count=1)) == 1
    assert await store.write(leases.seize, two)
    assert not (await store.write(leases.renew, two, {})).held
    assert await lost(store) == [two]
    assert await store.write(leases.seize, two), "whoever seized it may have died before it took over"


async def test_at_the_start_of_a_store_of_ones_own_all_daemons_are_lost(store):
    one = await daemon(store)
    assert await lost(store) == []
    assert await lost(store, all_of_them=True) == [one]


async def test_daemons_hear_of_each_others_interactive_load(store, clock):
    one, two, stale = [await daemon(store, name) for name in ("one", "two", "stale")]
    await store.write(leases.renew, stale, {"m": 100})
    clock.advance(leases.LEASE_S - 1)
    await store.write(leases.renew, one, {"m": 2, "n": 1})
    await store.write(leases.renew, two, {"m": 3})
    assert (await store.write(leases.renew, one, {"m": 1})).interactive == {"m": 103}
    clock.advance(1)
    assert (await store.write(leases.renew, one, {"m": 1})).interactive == {"m": 3}
    assert (await store.write(leases.renew, two, {})).interactive == {"m": 1}


async def test_a_daemon_that_was_taken_over_cannot_renew(store, clock):
    one = await daemon(store)
    await store.write(leases.take_over, one, MAX_ATTEMPTS, POLICY)
    assert (await store.write(leases.renew, one, {})).held is False
    assert one in await lost(store)


async def test_what_a_lost_daemon_ran_is_queued_again_at_unknown_cost(store, clock):
    ada, gone, worker = await owner(store), await daemon(store, "gone"), await daemon(store)
    batch = await create(store, ada, ["m", "m", "n"])
    await claim(store, gone, count=1)
    kept = await claim(store, worker, count=1)
    assert await take_over(store, gone) == 1
    now = await get(store, ada, batch.id)
    assert (now.queued, now.running, now.cost, now.cost_unknown) == (2, 1, 0, 1)
    (first, second, _) = await read_results(store, batch)
    assert (first.status, first.failure.code, first.failure.status) == ("queued", "upstream_error", 502)
    assert second.status == "running"
    assert [c.attempt for c in await claim(store, worker)] == [2]
    assert await report(store, succeeded(kept[0])) == 1
    await balanced(store)


async def test_a_request_lost_at_its_last_attempt_fails(store):
    ada = await owner(store)
    batch = await create(store, ada, ["m"])
    for attempt in range(1, MAX_ATTEMPTS + 1):
        worker = await daemon(store)
        assert [c.attempt for c in await claim(store, worker)] == [attempt]
        await take_over(store, worker)
        await balanced(store)
    now = await get(store, ada, batch.id)
    assert (now.status, now.failed, now.cost_unknown) == ("completed", 1, MAX_ATTEMPTS)
    assert (await read_results(store, batch))[0].failure.code == "upstream_error"


async def test_a_request_lost_in_a_cancelled_batch_is_cancelled(store):
    ada, gone = await owner(store), await daemon(store)
    batch = await create(store, ada)
    await claim(store, gone, count=2)
    await cancel(store, ada, batch.id)
    await take_over(store, gone)
    now = await get(store, ada, batch.id)
    assert (now.status, now.cancelled, now.cost_unknown) == ("cancelled", 3, 2)
    await balanced(store)


async def test_a_large_loss_is_taken_over_in_pieces(store, monkeypatch):
    monkeypatch.setattr(leases, "TAKE_OVER_CHUNK", 4)
    ada, gone = await owner(store), await daemon(store)
    for _ in range(3):
        await create(store, ada, ["m", "n", "m"])
    await claim(store, gone, "m")
    await claim(store, gone, "n")
    pieces = []
    while taken := await store.write(leases.take_over, gone, MAX_ATTEMPTS, POLICY):
        pieces.append(taken)
        await balanced(store)
    assert pieces == [4, 4, 1]
    await store.write(leases.forget, gone)
    assert await store.write(leases.take_over, gone, MAX_ATTEMPTS, POLICY) == 0
    assert await lost(store, all_of_them=True) == []


async def test_the_books_know_what_was_lost(store, clock):
    ada, gone = await owner(store), await daemon(store)
    await create(store, ada, ["m", "n", "m"])
    await claim(store, gone, "m")
    await claim(store, gone, "n")
    await take_over(store, gone)

    def books():
        return (yield Query("SELECT model, attempts, cost, cost_unknown FROM spending ORDER BY model"))

    assert await store.read(books) == [("m", 2, 0, 2), ("n", 1, 0, 1)]


async def test_jobs_in_a_lost_daemons_hands_are_free_again(store, clock):
    gone, worker = await daemon(store, "gone"), await daemon(store)
    await store.write(jobs.enqueue, "k", "s", clock.now)
    held = await store.write(jobs.take, "k", gone)
    assert await store.write(jobs.take, "k", worker) is None
    await take_over(store, gone)
    again = await store.write(jobs.take, "k", worker)
    assert (again.id, again.attempts, again.lease) == (held.id, 2, worker)
    assert await store.write(jobs.holds, held) is False
    await store.write(jobs.done, held)
    await store.write(jobs.postpone, held, 0.0)
    assert await store.write(jobs.holds, again) is True


async def test_a_daemon_can_be_told_what_it_holds(store):
    """For one that had no answer to a claim; of one model, as its pool asks."""
    ada, worker, other = await owner(store), await daemon(store), await daemon(store, "other")
    batch = await create(store, ada, ["m", "m", "m", "n"])
    mine, _ = await claim(store, worker, count=1) + await claim(store, worker, "n")
    await claim(store, other, count=1)
    (held,) = await store.write(leases.holdings, worker, "m")
    assert (held.number, held.attempt, held.batch_id) == (mine.number, 1, batch.id)
    assert await report(store, given_back(held.as_claimed(worker, "m"))) == 1
    assert await store.write(leases.holdings, worker, "m") == []
    assert (await get(store, ada, batch.id)).queued == 2
    await balanced(store)
    assert [c.attempt for c in await claim(store, worker)] == [1, 1]


async def test_jobs_that_a_daemon_does_not_know_of_are_given_back(store, clock):
    worker, other = await daemon(store), await daemon(store, "other")
    for kind, who in (("k", worker), ("k", worker), ("k", other), ("j", worker)):
        await store.write(jobs.enqueue, kind, "s", clock.now)
        assert (await store.write(jobs.take, kind, who)).lease == who
    await store.write(jobs.enqueue, "k", "s", clock.now)
    known = await store.write(jobs.take, "k", worker)
    assert await store.write(jobs.give_back, "k", worker, [known.id]) == 2
    assert await store.write(jobs.give_back, "k", worker, [known.id]) == 0
    assert await store.write(jobs.holds, known)
    assert [(await store.write(jobs.take, "k", worker)).attempts for _ in range(2)] == [1, 1]
    assert await store.write(jobs.take, "k", worker) is None


async def test_a_model_is_known_while_a_daemon_that_lives_has_it(store, clock):
    one, two = await store.write(leases.register, "one", ["m"]), await daemon(store, "two")
    assert await store.read(leases.others_have, "m", two)
    assert not await store.read(leases.others_have, "m", one)
    assert not await store.read(leases.others_have, "n", two)
    await store.write(leases.renew, one, {}, ["n"])
    assert not await store.read(leases.others_have, "m", two)
    assert await store.read(leases.others_have, "n", two)
    clock.advance(leases.LEASE_S)
    assert not await store.read(leases.others_have, "n", two)
