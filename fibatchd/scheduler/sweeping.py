"""The loop of all that tidies up, the core's and the plugins': an outage of the store puts a sweep off, and nothing else."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import trio

from fibatchd.beat import beat
from fibatchd.errors import StoreUnavailable


async def keep_sweeping(
    sweep: Callable[[], Awaitable[object]], every_s: float, warn: Callable[[StoreUnavailable], object]
) -> NoReturn:
    """Call `sweep` now, and again up to `every_s` seconds (1 or more) after each call is over, see `beat`, until cancelled.

    Where the store cannot be used, `warn` gets the error, to log what is not done. Any other error is raised.
    """
    while True:
        try:
            await sweep()
        except StoreUnavailable as error:
            warn(error)
        await trio.sleep_until(beat(every_s))
