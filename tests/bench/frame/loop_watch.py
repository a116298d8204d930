"""A plugin for the daemon's plugin folder: how long its event loop is held, from one wait for events to the next.

Whatever is ready while the loop is held waits for so long. The longest hold since it was last asked is at
`GET /v1/bench/longest-hold`, in seconds.
"""

import time

import trio
from quart import Blueprint

from fibatchd.plugin_api import Context, hookimpl

routes = Blueprint("loop_watch", __name__)


class LoopWatch(trio.abc.Instrument):
    """trio calls it around each wait for events. The CPU time of the longest hold tells what of it was our own work: the rest
    the thread waited for the interpreter's lock, or for a core."""

    def __init__(self) -> None:
        self.longest = (0.0, 0.0)
        self._woke = self._now()

    def after_io_wait(self, timeout: float) -> None:
        self._woke = self._now()

    def before_io_wait(self, timeout: float) -> None:
        wall, cpu = self._now()
        self.longest = max(self.longest, (wall - self._woke[0], cpu - self._woke[1]))

    @staticmethod
    def _now() -> tuple[float, float]:
        return trio.current_time(), time.thread_time()


_watches: list[LoopWatch] = []


@routes.get("/v1/bench/longest-hold")
async def longest_hold() -> dict[str, float]:
    (seconds, cpu_s) = max(watch.longest for watch in _watches)
    for watch in _watches:
        watch.longest = (0.0, 0.0)
    return {"seconds": seconds, "cpu_s": cpu_s}


@hookimpl
def fibatchd_routes(context: Context) -> list[Blueprint]:
    watch = LoopWatch()
    trio.lowlevel.add_instrument(watch)
    _watches.append(watch)
    return [routes]
