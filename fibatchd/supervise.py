"""Keeps a part of the daemon running: one that crashes is logged and started again, with backoff.

The first start is different: a part that cannot start at all stops whoever starts it.
"""

from collections import Counter
from collections.abc import Awaitable
from typing import Protocol

import structlog
import trio

from fibatchd.errors import FibatchdError
from fibatchd.metrics import Labels

log = structlog.get_logger()

FIRST_S = 0.5
CAP_S = 30.0
STABLE_S = 60.0  # a part that ran for so long starts anew without the backoff it had

restarts: Counter[Labels] = Counter()
"""How often each part, by its name, was started again since this process began: a fault of ours each time."""


class Part(Protocol):
    """A long-running function that says when it works."""

    def __call__(self, *, task_status: trio.TaskStatus[None] = ...) -> Awaitable[None]:
        """Run until cancelled."""
        ...


class _Report:
    """Passes on the first `started`, and notes whether there was one."""

    def __init__(self, status: trio.TaskStatus[None]) -> None:
        self._status = status
        self.reported = False

    def started(self, value: None = None) -> None:
        """The part works."""
        if not self.reported:
            self.reported = True
            self._status.started()


async def supervise(name: str, part: Part, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run `part` until cancelled, again and again. Before it has started once, what it raises is raised, and FibatchdError
    where it ends."""
    report = _Report(task_status)
    wait = FIRST_S
    restarts[name,] += 0  # a counter that is there from the start shows its first step, too
    while True:
        began, failure = trio.current_time(), None
        try:
            await part(task_status=report)
        except Exception as error:
            failure = error
        if not report.reported:
            raise failure or FibatchdError(f"{name} ended before it said that it works")
        if trio.current_time() - began > STABLE_S:
            wait = FIRST_S
        if failure:
            log.error("part crashed", part=name, again_in=wait, exc_info=failure)
        else:
            log.error("part ended", part=name, again_in=wait)
        restarts[name,] += 1
        await trio.sleep(wait)
        wait = min(wait * 2, CAP_S)
