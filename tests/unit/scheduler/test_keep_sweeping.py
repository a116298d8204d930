"""What tidies up comes to its turn again and again, also after an outage of the store; a fault of its own ends it."""

import pytest
import trio

from fibatchd.errors import StoreUnavailable
from fibatchd.scheduler.sweeping import keep_sweeping


async def test_an_outage_is_told_and_puts_a_sweep_off(autojump_clock):
    outage, began, swept, told = StoreUnavailable("the disk is full"), trio.current_time(), [], []

    async def sweep():
        swept.append(trio.current_time() - began)
        await trio.sleep(1)
        if len(swept) == 2:
            raise outage

    with trio.move_on_after(19):
        await keep_sweeping(sweep, 5.0, told.append)
    assert swept == [0, 6, 12, 18]
    assert told == [outage]


async def test_another_error_is_raised(autojump_clock):
    async def sweep():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await keep_sweeping(sweep, 5.0, pytest.fail)
