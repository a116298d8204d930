"""Removes sessions that are over. May run on any daemon, at any time."""

import structlog
import trio

from fibatchd.plugin_api import Context, keep_sweeping

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
        await keep_sweeping(
            self.sweep,
            SWEEP_S,
            lambda error: log.warning("sessions are not swept: the store cannot be used", error=str(error)),
        )

    async def sweep(self) -> None:
        """Do all there is to do now. Raises StoreUnavailable."""
        await self._context.store.write(sessions.sweep, Settings.of(self._context.config).session_idle_s)
