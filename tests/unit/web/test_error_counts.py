"""Errors are counted once for all who ask, seldom while a large batch runs, and never again once it has ended."""

from types import SimpleNamespace

import pytest
import trio

from fibatchd.web.error_counts import REMEMBERED, ErrorCounts


class Store:
    """Counts take `seconds`; each is told by its number."""

    def __init__(self, seconds):
        self.seconds, self.counted = seconds, 0

    async def read(self, script, batch):
        await trio.sleep(self.seconds)
        self.counted += 1
        return [self.counted]


def batch(name="b", *, is_final=False):
    return SimpleNamespace(id=name, is_final=is_final)


async def test_counting_takes_a_twentieth_of_the_time(autojump_clock):
    store, counts = Store(0.1), ErrorCounts()
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(counts.of, store, batch())
    assert store.counted == 1
    await trio.sleep(1.9)
    assert await counts.of(store, batch()) == [1]
    await trio.sleep(0.2)
    assert await counts.of(store, batch()) == [2]


async def test_what_takes_no_time_is_always_new(autojump_clock):
    store, counts = Store(0), ErrorCounts()
    assert [await counts.of(store, batch()) for _ in range(3)] == [[1], [2], [3]]


async def test_an_ended_batch_is_counted_at_once_and_for_good(autojump_clock):
    store, counts = Store(10), ErrorCounts()
    assert await counts.of(store, batch()) == [1]
    assert await counts.of(store, batch(is_final=True)) == [2]
    await trio.sleep(10_000)
    assert await counts.of(store, batch(is_final=True)) == [2]
    # Read before the batch had ended, asked for after.
    assert await counts.of(store, batch()) == [2]


@pytest.mark.parametrize("number", [REMEMBERED + 5])
async def test_memory_is_bounded(autojump_clock, number):
    store, counts = Store(0), ErrorCounts()
    for index in range(number):
        await counts.of(store, batch(str(index), is_final=True))
    assert len(counts._known) == REMEMBERED
