"""Pieces that are made while the last one is taken: in order, one ahead, and an error of either side ends both."""

import pytest
import trio

from fibatchd.web.work import one_ahead


async def numbers(count, seen, fail_at=None):
    try:
        for number in range(count):
            if number == fail_at:
                raise ValueError(number)
            seen.append(f"made {number}")
            yield number
    finally:
        seen.append("closed")


async def test_the_next_piece_is_made_while_one_is_taken_and_none_beyond():
    seen = []

    async def take(number):
        await trio.testing.wait_all_tasks_blocked()
        seen.append(f"took {number}")

    await one_ahead(numbers(3, seen), take)
    assert seen == ["made 0", "made 1", "took 0", "made 2", "took 1", "closed", "took 2"]


async def test_no_pieces_are_nothing_to_take():
    await one_ahead(numbers(0, []), pytest.fail)


async def test_what_making_raises_ends_the_taking_and_comes_out_as_it_is():
    seen = []

    async def take(number):
        try:
            await trio.sleep_forever()
        finally:
            seen.append(f"left {number}")

    with pytest.raises(ValueError, match="1"):
        await one_ahead(numbers(3, seen, fail_at=1), take)
    assert seen == ["made 0", "closed", "left 0"]


async def test_what_taking_raises_ends_the_making_and_comes_out_as_it_is():
    seen = []

    async def take(number):
        await trio.testing.wait_all_tasks_blocked()
        raise KeyError(number)

    with pytest.raises(KeyError):
        await one_ahead(numbers(3, seen), take)
    assert seen == ["made 0", "made 1", "closed"]


async def test_it_is_cancelled_whole(autojump_clock):
    seen = []

    async def take(number):
        await trio.sleep_forever()

    with trio.move_on_after(1) as scope:
        await one_ahead(numbers(3, seen), take)
    assert scope.cancelled_caught
    assert seen[-1] == "closed"
