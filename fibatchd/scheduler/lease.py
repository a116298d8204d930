"""Staying the owner of what runs here, and taking over what a daemon that is gone left behind."""

import os
import socket

import structlog
import trio

from fibatchd.context import Context
from fibatchd.errors import StoreUnavailable
from fibatchd.store import leases

log = structlog.get_logger()

RENEW_S = 3.0
TAKE_OVER_S = 3.0


class Lease:
    """This daemon's id in the store, renewed while it runs; a new one when it was lost."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._lock = trio.Lock()
        self.daemon = 0

    async def begin(self) -> None:
        """Register. A store that this daemon alone may use has no other's leases: all are released first, at once."""
        if not self._context.store.shared:
            await self.take_over(all_of_them=True)
        self.daemon = await self._context.store.write(leases.register, self._name)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Renew until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(RENEW_S)
            try:
                peers = await self._context.store.write(leases.renew, self.daemon, self._context.load.own())
                self._context.load.set_peers(peers.interactive)
                if not peers.held:
                    await self.renew_lost()
            except StoreUnavailable as error:
                log.warning("leases cannot be renewed", error=str(error))

    async def renew_lost(self) -> None:
        """Register anew: others have taken over what ran here, and its results will be refused."""
        lost = self.daemon
        async with self._lock:
            if self.daemon == lost:
                log.warning("leases were lost to another daemon", daemon=lost)
                self.daemon = await self._context.store.write(leases.register, self._name)

    async def keep_taking_over(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look for lost daemons until cancelled."""
        task_status.started()
        while True:
            try:
                await self.take_over()
            except StoreUnavailable as error:
                log.warning("lost leases cannot be taken over", error=str(error))
            await trio.sleep(TAKE_OVER_S)

    async def take_over(self, *, all_of_them: bool = False) -> None:
        """Queue again what lost daemons ran."""
        store = self._context.store
        for daemon in await store.read(leases.lost_daemons, all_of_them=all_of_them):
            total = 0
            while count := await self._take_over_some(daemon):
                total += count
            await store.write(leases.forget, daemon)
            log.warning("took over from a daemon that is gone", daemon=daemon, requests=total)

    async def end(self) -> None:
        """Give up this daemon's id; nothing runs under it any more, and what the store may hold for it all the same (an
        answer to a claim was lost) is queued again."""
        while await self._take_over_some(self.daemon):
            pass
        await self._context.store.write(leases.forget, self.daemon)

    async def _take_over_some(self, daemon: int) -> int:
        context = self._context
        return await context.store.write(leases.take_over, daemon, context.config.batches.max_attempts, context.policy)
