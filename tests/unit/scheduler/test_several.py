"""Two daemons on one store, on a clock that jumps: places move at once, nothing runs past a lease, an outage costs nothing.

The store is SQLite's, told that others may share it: what is tested here is the schedulers' part.
"""

import contextlib
from functools import partial

import pytest
import trio
from scripted import success
from two_daemons import running, second_daemon

from fibatchd.domain.requests import Failure
from fibatchd.errors import StoreUnavailable
from fibatchd.inference.execute import Attempt
from fibatchd.scheduler import lease, sweeper
from fibatchd.scheduler.share import PLACES_S
from fibatchd.store import claims, leases
from fibatchd.store.interface import Query

pytestmark = pytest.mark.usefixtures("shared")

ECHO = """
[[models]]
id = "m"
concurrency = 8
{model}
[[models.upstreams]]
url = "echo:"
delay_s = {delay}
"""

SCRIPTED = """
[[models]]
id = "m"
concurrency = 8
[[models.upstreams]]
url = "http://a/v1"
"""


def rows_of(table, columns):
    return (yield Query(f"SELECT {columns} FROM {table}"))


async def held(w):
    return sum(count for (count,) in await w.store.read(rows_of, "places", "held"))


async def test_all_places_are_in_use_whoever_holds_them(world, clock):
    async with world(ECHO.format(delay=1, model="")) as w:
        owner = await w.account()
        batch_id = await w.submit(owner, 160)
        await trio.sleep(2.1)
        assert running(w.scheduler) == 8
        async with second_daemon(w) as second:
            await trio.sleep(2.4)  # until some have ended of which the second may have the places
            for _ in range(10):
                assert running(w.scheduler, second) == 8
                assert running(w.scheduler) == running(second) == 4
                await trio.sleep(0.9)
            batch = await w.until(owner, batch_id)
        assert batch.completed == 160
        assert batch.completed_at - batch.in_progress_at < 22


async def test_places_that_are_not_used_are_given_back_and_had_again_at_once(world, clock):
    async with world(ECHO.format(delay=1, model="")) as w, second_daemon(w) as second:
        owner = await w.account()
        await w.until(owner, await w.submit(owner, 24))
        await trio.sleep(7)
        assert await held(w) == 0
        await w.submit(owner, 24)
        await trio.sleep(0.1)
        assert running(w.scheduler, second) == 8


async def test_places_whose_last_requests_have_ended_are_given_back_within_a_second(world, clock, upstreams):
    """Half end when the daemon is to ask for places again, the others before it is to the next time: nobody wakes it then."""
    times = iter([1.1, 1.1, 1.1, 1.1, 1.9, 1.9, 1.9, 1.9])

    async def answer(_prompt):
        await trio.sleep(next(times))
        return success()

    upstreams["http://a/v1"].behaviour = answer
    async with world(SCRIPTED) as w:
        owner = await w.account()
        began = trio.current_time()
        await w.until(owner, await w.submit(owner, 8))
        assert trio.current_time() - began < PLACES_S + 1
        assert await held(w) > 0, "their end alone is not worth a transaction"
        await trio.sleep(PLACES_S)
        assert await held(w) == 0


async def test_a_daemon_that_stops_lets_others_have_its_places_as_its_requests_end(world, clock):
    async with world(ECHO.format(delay=10, model="")) as w:
        owner = await w.account()
        async with second_daemon(w) as second:
            await w.submit(owner, 100)
            await trio.sleep(25)
            assert (running(w.scheduler), running(second)) == (4, 4)
            second.drain(60)
            await trio.sleep(11)
            assert (running(w.scheduler), running(second)) == (8, 0)


async def test_all_yield_for_the_interactive_calls_of_one(world, clock):
    async with world(ECHO.format(delay=1, model="capacity = 10")) as w, second_daemon(w) as second:
        owner = await w.account()
        await w.submit(owner, 1000)
        await trio.sleep(4.6)  # between the ends of requests, which all take a second
        assert running(w.scheduler, second) == 8
        with contextlib.ExitStack() as calls:
            for _ in range(6):
                calls.enter_context(second.context.load.enter("m"))
            await trio.sleep(2)
            assert running(w.scheduler, second) <= 4
            await trio.sleep(3)
            assert running(w.scheduler, second) == 4
        await trio.sleep(5)
        assert running(w.scheduler, second) == 8


@contextlib.contextmanager
def broken(store, *scripts):
    """The store cannot be written by these scripts."""
    write = store.write

    async def refuse(script, *args, **kwargs):
        if script in scripts:
            raise StoreUnavailable("told to")
        return await write(script, *args, **kwargs)

    store.write = refuse
    try:
        yield
    finally:
        store.write = write


async def test_nothing_starts_past_the_lease_and_what_runs_is_recorded(world, clock):
    async with world(ECHO.format(delay=10, model="")) as w:
        owner = await w.account()
        batch_id = await w.submit(owner, 32)
        await trio.sleep(9)
        daemon = w.scheduler.lease.daemon
        with broken(w.store, leases.renew):
            await trio.sleep(leases.LEASE_S)
            assert running(w.scheduler) == 8, "started within the lease"
            await trio.sleep(10)
            assert (running(w.scheduler), (await w.batch(owner, batch_id)).completed) == (0, 24)
        batch = await w.until(owner, batch_id)
        assert (batch.completed, batch.cost_unknown) == (32, 0)
        assert w.scheduler.lease.daemon == daemon, "nobody took it over meanwhile"


async def test_what_was_claimed_ahead_does_not_start_past_the_lease(world, clock, monkeypatch):
    async with world(ECHO.format(delay=0.07, model="")) as w:
        starts = []
        attempt = w.context.executor.attempt

        async def noted(*args, **kwargs):
            starts.append(w.now)
            return await attempt(*args, **kwargs)

        monkeypatch.setattr(w.context.executor, "attempt", noted)
        owner = await w.account()
        await w.submit(owner, 5000)
        await trio.sleep(2)
        with broken(w.store, leases.renew):
            ((deadline,),) = await w.store.read(rows_of, "daemons", "deadline")
            await trio.sleep(2 * leases.LEASE_S)
            assert deadline - 0.1 < max(starts) < deadline


async def test_what_was_claimed_ahead_is_given_back_while_nobody_can_look_it_up(world, clock, monkeypatch):
    async with world(ECHO.format(delay=0.07, model="")) as w:
        owner, pool = await w.account(), w.scheduler.pools["m"]
        batch_id = await w.submit(owner, 500)
        await trio.sleep(2)
        assert pool.stock
        with monkeypatch.context() as patched, broken(w.store, claims.claim):
            patched.setattr(pool, "_limit", lambda now: 0)  # nothing may start for now
            patched.setattr(pool, "_look", partial(w.store.write, claims.claim))
            pool.wake()
            await trio.sleep(0.01)
            assert not pool.stock
        batch = await w.until(owner, batch_id)
        assert (batch.completed, batch.cost_unknown) == (500, 0)


def take_all(daemon, policy):
    """What another daemon does with one whose lease ran out, at one stroke."""
    yield Query("UPDATE daemons SET deadline = 0 WHERE id = ?", (daemon,))
    yield from leases.take_over(daemon, 8, policy)
    yield from leases.forget(daemon)


async def test_what_another_daemon_took_over_is_cut_here(world, clock):
    async with world(ECHO.format(delay=100, model="")) as w:
        owner = await w.account()
        batch_id = await w.submit(owner, 8)
        await trio.sleep(1)
        lost = w.scheduler.lease.daemon
        await w.store.write(take_all, lost, w.context.policy)
        await trio.sleep(2)
        assert w.scheduler.lease.daemon > lost
        assert {claimed.lease for claimed in w.scheduler.pools["m"].running} == {w.scheduler.lease.daemon}
        assert running(w.scheduler) == 8
        assert await held(w) == 8
        batch = await w.until(owner, batch_id)
        assert (batch.completed, batch.cost_unknown) == (8, 8)


async def test_after_an_outage_others_have_time_to_come_back(world, clock):
    async with world(ECHO.format(delay=1, model="")) as w:
        slow = await w.store.write(leases.register, "slow")
        with broken(w.store, leases.renew):
            await trio.sleep(3 * leases.LEASE_S)
            assert slow in (await w.store.read(leases.lost_daemons))[0]
        await trio.sleep(lease.GRACE_S - 0.5)
        assert (await w.store.write(leases.renew, slow, {})).held
        await trio.sleep(leases.LEASE_S + lease.TAKE_OVER_S + 0.1)
        assert not (await w.store.write(leases.renew, slow, {})).held


@contextlib.contextmanager
def stepped(w, seconds):
    """The store's clock is off by so much."""
    store = w.store._store
    right = store._clock
    store._clock = lambda: right() + seconds
    try:
        yield
    finally:
        store._clock = right


@pytest.mark.parametrize("hours", [3, -3])
async def test_a_clock_that_is_stepped_costs_nobody_a_lease(world, clock, hours):
    async with world(ECHO.format(delay=1, model="")) as w:
        await trio.sleep(0.55)  # so that one judges while the other has not renewed yet
        async with second_daemon(w) as other:
            owner = await w.account()
            batch_id = await w.submit(owner, 100)
            daemons = w.scheduler.lease.daemon, other.lease.daemon
            for _ in range(20):
                await trio.sleep(0.37)
                with stepped(w, 3600 * hours):
                    await trio.sleep(0.41)
            assert daemons == (w.scheduler.lease.daemon, other.lease.daemon)
            batch = await w.until(owner, batch_id)
            assert (batch.completed, batch.cost_unknown) == (100, 0)


async def test_a_daemon_that_died_before_the_clock_was_set_back_is_taken_over(world, clock):
    async with world(ECHO.format(delay=1, model="")) as w:
        with stepped(w, 3600):
            dead = await w.store.write(leases.register, "dead")
        await trio.sleep(lease.GRACE_S + 2 * lease.TAKE_OVER_S)
        assert not (await w.store.write(leases.renew, dead, {})).held


async def test_a_retry_that_was_put_off_before_the_clock_was_set_back_does_not_wait_for_that_time(
    world, clock, monkeypatch
):
    async with world(ECHO.format(delay=0.1, model="")) as w:
        attempt = w.context.executor.attempt
        failing = Attempt(failure=Failure("upstream_error", "told to", 500), retry=True)

        async def fail(*_, **__):
            await trio.sleep(0.1)
            return failing

        owner = await w.account()
        monkeypatch.setattr(w.context.executor, "attempt", fail)
        with stepped(w, 36_000):
            batch_id = await w.submit(owner, 4)
            await trio.sleep(0.15)
        monkeypatch.setattr(w.context.executor, "attempt", attempt)
        began = trio.current_time()
        batch = await w.until(owner, batch_id)
        assert batch.completed == 4
        assert trio.current_time() - began < 3 * sweeper.SELDOM_S
