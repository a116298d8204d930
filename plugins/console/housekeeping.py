"""Removes sessions that are over. May run on any daemon, at any time."""

import structlog
import trio

from fibatchd.plugin_api import Context, StoreUnavailable

from . import sessions
from .settings import Settings

SWEEP_S = 10.0

log = structlog.get_logger(__name__)


class Housekeeping:
    """A service: sweeps until cancelled."""

    name = "console:housekeeping"

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Sweep every few seconds: a session whose account was suspended is over also when the account is resumed."""
        task_status.started()
        while True:
            try:
                await self._context.store.write(sessions.sweep, Settings.of(self._context.config).session_idle_s)
            except StoreUnavailable as error:
                log.warning("sessions are not swept: the store cannot be used", error=str(error))
            await trio.sleep(SWEEP_S)
