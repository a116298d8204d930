"""A plugin for the daemon's plugin folder: how long its event loop is held, from one wait for events to the next.

Whatever is ready while the loop is held waits for so long. The longest hold since it was last asked is at
`GET /v1/bench/longest-hold`, in seconds.
"""

import trio
from quart import Blueprint

from fibatchd.plugin_api import Context, hookimpl

routes = Blueprint("loop_watch", __name__)


class LoopWatch(trio.abc.Instrument):
    """trio calls it around each wait for events."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._woke = trio.current_time()

    def after_io_wait(self, timeout: float) -> None:
        self._woke = trio.current_time()

    def before_io_wait(self, timeout: float) -> None:
        self.longest = max(self.longest, trio.current_time() - self._woke)


_watches: list[LoopWatch] = []


@routes.get("/v1/bench/longest-hold")
async def longest_hold() -> dict[str, float]:
    longest = max(watch.longest for watch in _watches)
    for watch in _watches:
        watch.longest = 0.0
    return {"seconds": longest}


@hookimpl
def fibatchd_routes(context: Context) -> list[Blueprint]:
    watch = LoopWatch()
    trio.lowlevel.add_instrument(watch)
    _watches.append(watch)
    return [routes]
