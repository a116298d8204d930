"""Removes events whose time is over, and all that deleted accounts left. May run on any daemon, at any time."""

import structlog
import trio

from fibatchd.plugin_api import Context, keep_sweeping

from . import outbox
from .settings import Settings

SWEEP_S = 5.0
AT_ONCE = 500

log = structlog.get_logger(__name__)


class Housekeeping:
    """A service: sweeps until cancelled."""

    name = "webhooks:housekeeping"

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Sweep every few seconds: what a deleted account left does not stay for long."""
        task_status.started()
        await keep_sweeping(
            self.sweep,
            SWEEP_S,
            lambda error: log.warning("webhook events are not swept: the store cannot be used", error=str(error)),
        )

    async def sweep(self) -> None:
        """Do all there is to do now. Raises StoreUnavailable."""
        retention_s = Settings.of(self._context.config).event_retention_s
        while await self._context.store.write(outbox.sweep, retention_s, AT_ONCE) >= AT_ONCE:
            pass
