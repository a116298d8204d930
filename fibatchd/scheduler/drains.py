"""Keeps `context.drained` as the database has it: what one daemon's operator takes out of service, all daemons do."""

from collections.abc import Callable

import structlog
import trio

from fibatchd.beat import beat
from fibatchd.context import Context
from fibatchd.errors import StoreUnavailable
from fibatchd.store import drains

log = structlog.get_logger()

LOOK_S = 2.0
"""Another process may have drained a model where no notification comes from: a command beside a SQLite daemon."""


class Drains:
    """Follows the table of drained models. `on_change` is called after each change."""

    name = "drains"

    def __init__(self, context: Context, on_change: Callable[[], None]) -> None:
        self._context = context
        self._on_change = on_change

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow until cancelled. It has started once it knows what is drained, so that nothing of it runs before."""
        async with self._context.store.listen(drains.CHANNEL) as told:
            known = False
            while True:
                if await self._look() and not known:
                    known = True
                    task_status.started()
                with trio.move_on_at(beat(LOOK_S)):
                    await anext(told)

    async def _look(self) -> bool:
        """Read the table; return whether that could be done."""
        try:
            found = frozenset(await self._context.store.read(drains.drained))
        except StoreUnavailable as error:
            log.warning("drained models cannot be looked for", error=str(error))
            return False
        before, self._context.drained = self._context.drained, found
        if found != before:
            log.info("drained models changed", drained=sorted(found - before), back=sorted(before - found))
            self._on_change()
        return True
