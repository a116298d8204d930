"""What the service manager is told, by systemd's notify protocol: sd_notify(3), sd_watchdog_enabled(3).

The watchdog hears from a task of the event loop, so a loop that hangs is silent; and only while the store has answered of
late, be it with an error. A database that is away is an error, for which `/readyz` is the right place: to start anew would
not bring it back. A store that gives no answer at all is a fault of this process.
"""

import math
from contextlib import suppress

import structlog
import trio

from fibatchd import systemd
from fibatchd.errors import StoreUnavailable
from fibatchd.store.interface import Store
from fibatchd.store.standing import answer

log = structlog.get_logger(__name__)

ASK_S = 5.0
SILENT_S = 300.0
"""A store is given up after this time. Over a network that swallows packets, a read needs minutes to find that out."""
TICK_S = 5.0
EXTEND_S = 15.0
"""While it drains, the daemon asks for so much more time at each tick: `drain_s` may be longer than TimeoutStopSec."""
AFTER_DRAIN_S = 20.0
"""What comes after `drain_s`, such as writing the last outcomes, is over within this time."""


class ServiceManager:
    """A service; where no manager listens, nothing is sent."""

    name = "service-manager"

    def __init__(self, store: Store, *, silent_s: float = SILENT_S) -> None:
        self._store = store
        self._silent_s = silent_s
        self._watchdog_s = systemd.watchdog_interval()
        self._answered_at = -math.inf
        self._stop_by = -math.inf
        self._warned = False

    def ready(self, status: str) -> None:
        """The daemon takes work; also after a reload, whether that succeeded or not."""
        systemd.notify("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """The configuration is read again."""
        systemd.notify("RELOADING=1", f"MONOTONIC_USEC={systemd.monotonic_usec()}", "STATUS=Reading the configuration")

    def stopping(self, drain_s: float) -> None:
        """The daemon stops; running requests have so long to finish."""
        self._stop_by = trio.current_time() + drain_s + AFTER_DRAIN_S
        systemd.notify("STOPPING=1", "STATUS=Waiting for running requests")
        self._extend()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Feed the watchdog, and ask for time while stopping, until cancelled."""
        self._answered_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            if self._watchdog_s is not None:
                nursery.start_soon(self._ask_the_store)
            task_status.started()
            while True:
                self._feed()
                self._extend()
                # Twice as often as it must be, as the manual advises; then once more, for a loop that is busy.
                await trio.sleep(min(TICK_S, (self._watchdog_s or math.inf) / 3))

    def _feed(self) -> None:
        if self._watchdog_s is None:
            return
        if trio.current_time() - self._answered_at < self._silent_s:
            systemd.notify("WATCHDOG=1")
            self._warned = False
        elif not self._warned:
            self._warned = True
            log.error("the store gives no answer: the watchdog is not fed any more", silent_s=self._silent_s)

    def _extend(self) -> None:
        left = self._stop_by - trio.current_time()
        if left > 0:
            systemd.notify(f"EXTEND_TIMEOUT_USEC={round(min(left, EXTEND_S) * 1e6)}")

    async def _ask_the_store(self) -> None:
        while True:
            with suppress(StoreUnavailable):
                await self._store.read(answer)
            self._answered_at = trio.current_time()
            await trio.sleep(ASK_S)
