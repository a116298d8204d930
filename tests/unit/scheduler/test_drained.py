"""A model that the operator drains by hand: nothing of it starts on any daemon until it is put back, restarts included.

The store is SQLite's, told that others may share it; the clock jumps.
"""

import pytest
import trio
from two_daemons import running, second_daemon

from fibatchd.store import drains
from fibatchd.store.interface import Query

pytestmark = pytest.mark.usefixtures("shared")

ECHO = """
[[models]]
id = "m"
concurrency = 8
[[models.upstreams]]
url = "echo:"
delay_s = 1
[[models]]
id = "other"
[[models.upstreams]]
url = "echo:"
delay_s = 1
"""


async def test_what_is_queued_waits_on_all_daemons_and_what_runs_ends(world, clock):
    async with world(ECHO) as w, second_daemon(w) as second:
        owner = await w.account()
        batch_id, other_id = await w.submit(owner, 100), await w.submit(owner, 40, "other")
        await trio.sleep(2.5)
        assert running(w.scheduler, second) == 8
        await w.store.write(drains.drain, "m")
        await trio.sleep(1.1)
        assert running(w.scheduler, second) == 0
        assert w.context.drained == second.context.drained == {"m"}
        before = await w.batch(owner, batch_id)
        await w.until(owner, other_id)
        await trio.sleep(60)
        after = await w.batch(owner, batch_id)
        assert (after.completed, after.queued, after.failed) == (before.completed, before.queued, 0)
        await w.store.write(drains.undrain, "m")
        await trio.sleep(0.1)
        assert running(w.scheduler, second) == 8
        assert (await w.until(owner, batch_id)).completed == 100


async def test_a_daemon_that_starts_knows_before_it_claims(world, clock):
    async with world(ECHO) as w:
        w.scheduler.drain(0)
        await w.store.write(drains.drain, "m")
        owner = await w.account()
        batch_id = await w.submit(owner, 4)
        async with second_daemon(w) as second:
            await trio.sleep(10)
            assert second.context.drained == {"m"}
            assert (await w.batch(owner, batch_id)).in_progress_at is None


async def test_a_change_that_nobody_told_of_is_seen_in_seconds(world, clock):
    """As one by a command beside a daemon on SQLite."""

    def insert():
        yield Query("INSERT INTO drained_models (model, since) VALUES ('m', 1)")

    async with world(ECHO) as w:
        await w.store.write(insert)
        await trio.sleep(2.1)
        assert w.context.drained == {"m"}
