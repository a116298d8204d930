"""A plugin for the daemon's plugin folder: how long its event loop is held, from one wait for events to the next.

Whatever is ready while the loop is held waits for so long. The longest hold since this was last asked is at
`GET /v1/bench/longest-hold`, in seconds; to ask the first time begins the watch.
"""

import math
import time

import trio
from quart import Blueprint

from fibatchd.plugin_api import Context, hookimpl

routes = Blueprint("loop_watch", __name__)


class LoopWatch(trio.abc.Instrument):
    """trio calls it around each wait for events. The CPU time of the longest hold tells what of it was our own work: the rest
    the thread waited for the interpreter's lock, or for a core."""

    def __init__(self) -> None:
        self._watching = False
        self._longest = (0.0, 0.0)
        self._woke = (math.inf, 0.0)

    def restart(self) -> tuple[float, float]:
        """Begin to watch, or begin anew; return the longest hold until now, in seconds and in seconds of CPU time."""
        if not self._watching:
            self._watching = True
            trio.lowlevel.add_instrument(self)
        longest, self._longest, self._woke = self._longest, (0.0, 0.0), (math.inf, 0.0)
        return longest

    def after_io_wait(self, timeout: float) -> None:
        self._woke = time.perf_counter(), time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        since, cpu_since = self._woke
        self._longest = max(self._longest, (time.perf_counter() - since, time.thread_time() - cpu_since))


_watch = LoopWatch()


@routes.get("/v1/bench/longest-hold")
async def longest_hold() -> dict[str, float]:
    seconds, cpu_s = _watch.restart()
    return {"seconds": seconds, "cpu_s": cpu_s}


@hookimpl
def fibatchd_routes(context: Context) -> list[Blueprint]:
    return [routes]
