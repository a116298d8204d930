"""A body that is made while it is sent: how far ahead, and how it ends."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from fibatchd.errors import StoreUnavailable
from fibatchd.web.ahead import Ahead


class Maker:
    """Makes parts, and notes what became of it."""

    def __init__(self, count, end=None):
        self.count = count
        self.end = end
        self.made = 0
        self.closed = False

    async def parts(self):
        try:
            for number in range(self.count):
                await trio.lowlevel.checkpoint()
                self.made += 1
                yield b"%d" % number
            if self.end is not None:
                await self.end()
        finally:
            self.closed = True


async def fail():
    raise StoreUnavailable("the disk is gone")


async def test_parts_come_in_order():
    maker = Maker(5)
    async with Ahead(maker.parts()) as parts:
        assert [part async for part in parts] == [b"0", b"1", b"2", b"3", b"4"]
    assert maker.closed


async def test_one_part_is_made_ahead_and_no_more():
    maker = Maker(5)
    async with Ahead(maker.parts()) as parts:
        taken = 0
        async for _ in parts:
            taken += 1
            await wait_all_tasks_blocked()
            assert maker.made == min(taken + 1, 5)


@pytest.mark.parametrize("waiting", [True, False])
async def test_the_next_one_is_begun_before_one_is_used(waiting):
    begun = 0

    async def parts():
        nonlocal begun
        while True:
            begun += 1
            await trio.lowlevel.checkpoint()
            yield b"part"

    async with Ahead(parts()) as given:
        for taken in range(1, 10):
            if waiting:
                await wait_all_tasks_blocked()
            await anext(given)
            assert begun == taken + 1


async def test_an_error_comes_behind_the_parts_before_it():
    maker = Maker(3, fail)
    async with Ahead(maker.parts()) as parts:
        for number in range(3):
            await wait_all_tasks_blocked()
            assert await anext(parts) == b"%d" % number
        with pytest.raises(StoreUnavailable, match="the disk is gone"):
            await anext(parts)
    assert maker.closed


async def test_what_is_raised_meanwhile_comes_out_as_it_is():
    maker = Maker(3, trio.sleep_forever)
    with pytest.raises(KeyError):
        async with Ahead(maker.parts()):
            raise KeyError
    assert maker.closed


@pytest.mark.parametrize("taken", [0, 1, 3])
async def test_who_leaves_ends_it(taken):
    maker = Maker(3, trio.sleep_forever)
    with trio.fail_after(5):
        async with Ahead(maker.parts()) as parts:
            for _ in range(taken):
                await anext(parts)
            await wait_all_tasks_blocked()
            assert not maker.closed
    assert maker.closed


async def test_who_is_cancelled_ends_it():
    maker = Maker(3, trio.sleep_forever)
    with trio.CancelScope() as scope:
        async with Ahead(maker.parts()) as parts:
            async for part in parts:
                if part == b"2":
                    scope.cancel()
    assert scope.cancelled_caught
    assert maker.closed
