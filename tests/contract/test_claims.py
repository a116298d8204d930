"""Taking requests to run: the attempt is counted, the owner looked at again, and nothing is taken twice."""

import pytest
import trio
from ledger import balanced
from scenario import (
    DAY,
    POLICY,
    anyone,
    cancel,
    claim,
    create,
    daemon,
    delete,
    failed,
    get,
    given_back,
    owner,
    pass_time,
    report,
    succeeded,
    to_retry,
    upload,
)  # fmt: skip

from fibatchd.domain import states
from fibatchd.errors import LeaseLost
from fibatchd.store import accounts, claims, leases, spending
from fibatchd.store.interface import Query


async def candidates(store, model="m"):
    found, _ = await store.read(claims.candidates, model)
    return found


async def take(store, worker, lane, count, may_run=anyone):
    return await store.write(claims.claim, worker, [(lane, count)], may_run)


async def test_a_claim_carries_all_that_an_attempt_needs(store, clock):
    ada, worker = await owner(store, models=["m"]), await daemon(store)
    batch = await create(store, ada, ["m", "n"], options='{"o": 1}')
    (claimed,) = await claim(store, worker)
    assert (claimed.number, claimed.attempt, claimed.lease) == (batch.first_number, 1, worker)
    assert (claimed.batch_id, claimed.account_id, claimed.key_id) == (batch.id, ada.account.id, ada.key.id)
    assert (claimed.model, claimed.endpoint, claimed.options) == ("m", "/v1/chat/completions", '{"o": 1}')
    assert claimed.body == b'{"prompt": 0}'


async def test_the_first_claim_starts_the_batch(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada)
    await pass_time(store, clock, 5)
    await claim(store, worker, count=1)
    started = await get(store, ada, batch.id)
    assert (started.status, started.in_progress_at) == (states.IN_PROGRESS, clock.now)
    assert (started.queued, started.running) == (2, 1)
    await pass_time(store, clock, 5)
    await claim(store, worker, count=1)
    assert (await get(store, ada, batch.id)).in_progress_at == started.in_progress_at
    await balanced(store)


async def test_candidates_come_with_their_owner_and_what_it_spent_today(store, clock):
    ada, eve, worker = await owner(store, "ada"), await owner(store, "eve", tier="free"), await daemon(store)
    first, second = await create(store, ada, ["m", "m", "n"]), await create(store, eve)
    await report(store, succeeded((await claim(store, worker, "n"))[0], cost=7))
    a, b = await candidates(store)
    assert (a.batch_id, a.queued, a.account, a.key, a.spent) == (first.id, 2, ada.account, ada.key, 7)
    assert (b.batch_id, b.queued, b.account, b.key, b.spent) == (second.id, 3, eve.account, eve.key, 0)
    assert a.model == b.model == "m"
    await pass_time(store, clock, spending.seconds_to_midnight(clock.now))
    assert [c.spent for c in await candidates(store)] == [0, 0]
    assert await candidates(store, "none") == []


async def test_nobody_takes_what_another_has_taken(store):
    ada, one, two = await owner(store), await daemon(store, "one"), await daemon(store, "two")
    await create(store, ada, ["m"] * 40)
    taken = []

    async def worker(who):
        for _ in range(4):
            taken.extend(await claim(store, who, count=5))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker, one)
        nursery.start_soon(worker, two)
    assert len(taken) == len({c.number for c in taken}) == 40
    assert {c.lease for c in taken} == {one, two}
    await balanced(store)


async def test_no_more_is_taken_than_was_asked_for(store):
    worker = await daemon(store)
    await create(store, await owner(store), ["m"] * 10)
    (lane,) = await candidates(store)
    for count in (1, 4):
        taken = await take(store, worker, lane.lane, count)
        assert len(taken.requests) == count
        assert taken.dry == {}


async def test_a_claim_stops_where_its_bodies_are_enough(store, clock, monkeypatch):
    worker = await daemon(store)
    await create(store, await owner(store), ["m"] * 3 + ["n"] * 2)
    lanes = [(await candidates(store, model))[0].lane for model in "mn"]
    retried = (await claim(store, worker, count=1))[0]
    await report(store, to_retry(retried, 10.0))
    await pass_time(store, clock, 10)
    takes, found = [(lane, 5) for lane in lanes], []
    monkeypatch.setattr(claims, "CLAIM_BYTES", len(retried.body) + 1)
    while (taken := await store.write(claims.claim, worker, takes, anyone)).requests:
        assert all(due is None or due <= clock.now for due in taken.dry.values())
        found.append([claimed.number - retried.number for claimed in taken.requests])
    assert found == [[0, 1], [2, 3], [4]]
    await balanced(store)


async def test_an_emptied_lane_says_when_to_come_again(store, clock):
    worker = await daemon(store)
    await create(store, await owner(store), ["m", "m"])
    (lane,) = await candidates(store)
    both = await take(store, worker, lane.lane, 3)
    assert both.dry == {lane.lane: None}
    await report(store, *[to_retry(c, delay) for c, delay in zip(both.requests, (30.0, 20.0), strict=True)])
    assert (await take(store, worker, lane.lane, 3)).dry == {lane.lane: clock.now + 20}
    await pass_time(store, clock, 20)
    again = await take(store, worker, lane.lane, 3)
    assert [c.attempt for c in again.requests] == [2]
    assert again.dry == {lane.lane: clock.now + 10}
    assert again.now == clock.now


async def test_retries_that_are_due_come_before_fresh_requests(store, clock):
    worker = await daemon(store)
    await create(store, await owner(store), ["m"] * 5)
    first = (await claim(store, worker, count=1))[0]
    await report(store, to_retry(first, 10.0))
    assert (await claim(store, worker, count=1))[0].number != first.number
    await pass_time(store, clock, 10)
    assert (await claim(store, worker, count=1))[0].number == first.number


async def test_what_was_given_back_keeps_its_turn_and_its_attempts(store, clock):
    worker = await daemon(store)
    await create(store, await owner(store), ["m"] * 5)
    first = (await claim(store, worker, count=1))[0]
    await report(store, to_retry(first, 10.0))
    await pass_time(store, clock, 10)
    again = (await claim(store, worker, count=1))[0]
    await report(store, given_back(again))
    once_more = (await claim(store, worker, count=1))[0]
    assert (once_more.number, once_more.attempt) == (first.number, 2)


async def test_the_decision_is_made_again_with_the_claim(store):
    """What was true when the candidates were read may be so no more: the claim asks again, in its own transaction."""
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada)
    (lane,) = await candidates(store)
    await store.write(accounts.revoke_key, ada.key.id)
    asked = []

    def may_run(candidate, now):
        asked.append((candidate.lane, now))
        return candidate.key.revoked_at is None

    refused = await take(store, worker, lane.lane, 3, may_run)
    assert refused.requests == []
    assert refused.dry == {lane.lane: None}
    assert asked == [(lane.lane, refused.now)]
    assert (await get(store, ada, batch.id)).status == states.VALIDATING
    await balanced(store)


@pytest.mark.parametrize("how", ["cancelled", "expired", "deleted", "unprepared"])
async def test_nothing_is_taken_from_a_batch_that_is_closed(store, clock, how):
    ada, worker = await owner(store), await daemon(store)
    if how == "unprepared":
        await upload(store, ada)
        assert await candidates(store) == []
        return
    batch = await create(store, ada)
    (lane,) = await candidates(store)
    if how == "expired":
        await pass_time(store, clock, DAY)  # no sweep has come by
    else:
        await (cancel if how == "cancelled" else delete)(store, ada, batch.id)
    assert await candidates(store) == []
    taken = await take(store, worker, lane.lane, 3)
    assert (taken.requests, taken.dry) == ([], {lane.lane: None})
    await balanced(store)


async def test_finished_requests_are_not_taken_again(store):
    worker = await daemon(store)
    await create(store, await owner(store), ["m", "m", "m"])
    taken = await claim(store, worker)
    await report(store, succeeded(taken[0]), failed(taken[1]))
    assert await claim(store, worker) == []


@pytest.mark.parametrize("how", ["late", "taken over", "forgotten", "unknown"])
async def test_a_daemon_whose_leases_ran_out_takes_nothing(store, clock, how):
    ada = await owner(store)
    await create(store, ada)
    (lane,) = await candidates(store)
    worker = await daemon(store)
    if how == "late":
        clock.advance(leases.LEASE_S)
    elif how == "unknown":
        worker += 1
    else:
        await store.write(leases.take_over, worker, 8, POLICY)
        if how == "forgotten":
            await store.write(leases.forget, worker)
    with pytest.raises(LeaseLost):
        await take(store, worker, lane.lane, 3)
    await balanced(store)


async def test_an_attempt_is_on_record_before_it_is_sent(store, clock):
    worker = await daemon(store)
    batch = await create(store, await owner(store), ["m"])
    await claim(store, worker)

    def row():
        return (
            yield Query(
                "SELECT status, attempts, lease, started_at FROM requests WHERE number = ?", (batch.first_number,)
            )
        )

    assert await store.read(row) == [("running", 1, worker, clock.now)]
