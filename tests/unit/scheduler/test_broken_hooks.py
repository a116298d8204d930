"""A plugin whose part in a batch's end breaks: the batch ends all the same, and so do all others."""

import pytest
import structlog

from fibatchd.store.interface import Query

CONFIG = """
[batches]
retention_s = 3600
[[models]]
id = "m"
concurrency = 4
[[models.upstreams]]
url = "echo:"
delay_s = 0.5
"""


def raises(batch):
    raise RuntimeError("a fault of the plugin's")


def breaks_in_the_store(batch):
    yield Query("INSERT INTO no_such_table (id) VALUES (?)", (batch.id,))


@pytest.mark.parametrize("hook", [raises, breaks_in_the_store])
async def test_batches_end_all_the_same_and_the_log_says_what_is_missing(world, clock, hook):
    async with world(CONFIG) as w:
        w.context.on_end.append(hook)
        owner = await w.account()
        with structlog.testing.capture_logs() as logged:
            first, second = await w.submit(owner, 6), await w.submit(owner, 3)
            assert (await w.until(owner, first)).completed == 6
            assert (await w.until(owner, second)).completed == 3
        assert any("ends without" in line["event"] for line in logged)


async def test_a_window_closes_all_the_same(world, clock):
    async with world(CONFIG.replace("0.5", "20")) as w:
        w.context.on_end.append(raises)
        owner = await w.account()
        batch = await w.until(owner, await w.submit(owner, 10, window_s=5))
        assert (batch.status, batch.completed, batch.expired) == ("expired", 4, 6)


async def test_a_hook_that_works_is_run_for_every_batch_of_a_group(world, clock):
    ended = []

    def note(batch):
        ended.append(batch.id)
        if batch.id == ids[0] and ended.count(batch.id) < 3:
            raise RuntimeError("the first one breaks")
        yield Query("SELECT 1")

    async with world(CONFIG) as w:
        owner = await w.account()
        ids = [await w.submit(owner, 1) for _ in range(4)]
        w.context.on_end.append(note)
        for batch_id in ids:
            assert (await w.until(owner, batch_id)).completed == 1
        assert set(ids) <= set(ended)
