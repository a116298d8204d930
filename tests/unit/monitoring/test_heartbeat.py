"""The heartbeat: it counts, and a loop that is held shows."""

import time

import trio

from fibatchd.monitoring.heartbeat import Heartbeat


async def test_a_beat_twice_a_second(autojump_clock):
    heart = Heartbeat()
    async with trio.open_nursery() as nursery:
        await nursery.start(heart.run)
        await trio.sleep(10.05)
        nursery.cancel_scope.cancel()
    assert heart.lag.count == 20
    assert heart.lag.sum < 1e-6


async def test_a_loop_that_is_held_is_late():
    heart = Heartbeat()
    async with trio.open_nursery() as nursery:
        await nursery.start(heart.run)
        time.sleep(0.7)  # noqa: ASYNC251 - to hold the loop is the purpose
        while not heart.lag.count:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert heart.lag.sum >= 0.2
