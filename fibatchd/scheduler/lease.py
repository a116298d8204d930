"""Staying the owner of what runs here, and taking over what a daemon that is gone left behind."""

import math
import os
import socket
from collections.abc import Callable

import structlog
import trio

from fibatchd.beat import beat
from fibatchd.context import Context
from fibatchd.errors import StoreUnavailable
from fibatchd.scheduler.hooks import end_anyway
from fibatchd.store import leases

log = structlog.get_logger()

RENEW_S = 3.0
RENEW_SHARED_S = 1.0  # daemons hear of each other's interactive load by this
TAKE_OVER_S = 3.0
GRACE_S = 5.0
"""After an outage of the database the leases of all are past their deadline: before anybody takes over, whoever lives has
this long to renew."""


def _nothing() -> None:
    """Be called when a lease is lost by a daemon that runs nothing."""


class Lease:
    """This daemon's id in the store, renewed while it runs; a new one when it was lost. Whoever runs things under it sets
    `on_lost`, which is called when others have taken them over."""

    def __init__(self, context: Context) -> None:
        self.daemon = 0
        self.others = 0
        """How many more daemons dispatch from this store."""
        self.on_lost: Callable[[], None] = _nothing
        self._context = context
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._lock = trio.Lock()
        self._soon = trio.Event()
        self._good_until = -math.inf  # by trio's clock: the database's deadline is later
        self._in_touch_since = math.inf
        self._store_ahead = math.nan  # how much the store's clock is ahead of trio's

    @property
    def holds(self) -> bool:
        """Whether nobody can have taken over what runs here. Past that nothing may start: after a pause of this process,
        say, in which the database went on counting."""
        return not self._context.store.shared or trio.current_time() < self._good_until

    async def begin(self) -> None:
        """Register. A store that this daemon alone may use has no other's leases: all are released first, at once."""
        if not self._context.store.shared:
            await self.take_over(all_of_them=True)
        await self._register()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Renew until cancelled."""
        task_status.started()
        while True:
            with trio.move_on_at(beat(RENEW_SHARED_S if self._context.store.shared else RENEW_S)):
                await self._soon.wait()
            self._soon = trio.Event()
            try:
                await self.renew()
            except StoreUnavailable as error:
                log.warning("leases cannot be renewed", error=str(error))

    def renew_soon(self) -> None:
        """The configuration changed: let the other daemons know which models there are now."""
        self._soon.set()

    async def renew(self) -> None:
        """Renew all leases, or register anew where others have taken over. Raises StoreUnavailable."""
        load = self._context.load
        async with self._lock:
            began = trio.current_time()
            peers = await self._context.store.write(leases.renew, self.daemon, load.own(), self._models())
            load.set_peers(peers.interactive)
            self.others = peers.others
            self._note_time(peers.now, began)
            if peers.held:
                self._note_renewal(began)
                return
            log.warning("leases were lost to another daemon", daemon=self.daemon)
            await self._register()
        self.on_lost()

    async def keep_taking_over(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look for lost daemons until cancelled."""
        task_status.started()
        while True:
            try:
                if self._may_judge:
                    await self.take_over()
            except StoreUnavailable as error:
                log.warning("lost leases cannot be taken over", error=str(error))
            await trio.sleep_until(beat(TAKE_OVER_S))

    @property
    def _may_judge(self) -> bool:
        """Whether a deadline that has passed means that its daemon is gone: the database was there for all to renew."""
        now = trio.current_time()
        renewed_at = self._good_until - leases.LEASE_S
        return not self._context.store.shared or now - renewed_at < GRACE_S <= now - self._in_touch_since

    async def take_over(self, *, all_of_them: bool = False) -> None:
        """Queue again what lost daemons ran."""
        store = self._context.store
        began = trio.current_time()
        lost, now = await store.read(leases.lost_daemons, all_of_them=all_of_them)
        if self._note_time(now, began) and not all_of_them:
            return
        for daemon in lost:
            if daemon == self.daemon or not (all_of_them or await store.write(leases.seize, daemon)):
                continue
            total = 0
            while count := await self._take_over_some(daemon):
                total += count
            if await store.write(leases.forget, daemon) or total:
                log.warning("took over from a daemon that is gone", daemon=daemon, requests=total)

    async def end(self) -> None:
        """Give up this daemon's id; nothing runs under it any more, and what the store may hold for it all the same (an
        answer to a claim was lost) is queued again."""
        while await self._take_over_some(self.daemon):
            pass
        await self._context.store.write(leases.forget, self.daemon)

    async def _register(self) -> None:
        began = trio.current_time()
        self.daemon = await self._context.store.write(leases.register, self._name, self._models())
        self._note_renewal(began)

    def _models(self) -> list[str]:
        return [model.id for model in self._context.config.models]

    def _note_time(self, now: float, began: float) -> bool:
        """Note the store's time, as an answer to a call that `began` then tells it; True where its clock was stepped since
        the last time. Then no deadline tells anything before all had time to renew."""
        least, most = now - trio.current_time(), now - began
        known = most if math.isnan(self._store_ahead) else self._store_ahead
        self._store_ahead = min(max(known, least), most)
        step = self._store_ahead - known
        if abs(step) <= GRACE_S:
            return False
        log.warning("the store's clock was stepped", by_s=round(step, 1))
        self._in_touch_since = trio.current_time()
        return True

    def _note_renewal(self, began: float) -> None:
        if began >= self._good_until - leases.LEASE_S + GRACE_S:
            self._in_touch_since = began  # the last one was long ago
        self._good_until = began + leases.LEASE_S

    async def _take_over_some(self, daemon: int) -> int:
        context = self._context
        return await end_anyway(context, leases.take_over, daemon, context.config.batches.max_attempts)
