"""Beats: what is done every few seconds is done at the same moments."""

import pytest
import trio

from fibatchd.beat import beat


@pytest.mark.parametrize(
    ("now", "seconds", "then"), [(0.0, 1, 1.0), (7.003, 1, 8.0), (7.9, 1, 8.0), (7.9, 3, 10.0), (8.0, 2.5, 10.0)]
)
async def test_the_last_whole_second_in_time(autojump_clock, now, seconds, then):
    await trio.sleep(now)
    assert beat(seconds) == then


async def test_it_is_never_now(autojump_clock):
    for _ in range(1000):
        before = trio.current_time()
        await trio.sleep_until(beat(1))
        assert 0 < trio.current_time() - before <= 1
        await trio.sleep(0.0371)


async def test_those_who_began_at_different_times_meet(autojump_clock):
    woken = set()

    async def look(first, seconds):
        await trio.sleep(first)
        for _ in range(20):
            await trio.sleep_until(beat(seconds))
            woken.add(trio.current_time())

    async with trio.open_nursery() as nursery:
        for first, seconds in [(0.1, 1), (0.35, 2), (0.7, 3), (0.99, 5)]:
            nursery.start_soon(look, first, seconds)
    assert all(at.is_integer() for at in woken)
