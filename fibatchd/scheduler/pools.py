"""All pools and what keeps them going: the part of the daemon that runs batches.

Three nurseries inside one another, so that stopping goes from the inside out: claiming ends at once, running attempts
get `drain_s`, the recorder writes what they leave.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog
import trio

from fibatchd.beat import beat
from fibatchd.context import Context
from fibatchd.errors import LeaseLost, StoreUnavailable
from fibatchd.scheduler.accounts import AccountLoad
from fibatchd.scheduler.drains import Drains
from fibatchd.scheduler.jobs import JobRunner
from fibatchd.scheduler.lease import Lease
from fibatchd.scheduler.pool import LOOK_IDLE_S, Pool
from fibatchd.scheduler.recorder import Recorder
from fibatchd.scheduler.share import PLACES_S
from fibatchd.scheduler.sweeper import Sweeper, fail_lane, fail_owner, purge
from fibatchd.store import accounts, claims
from fibatchd.supervise import supervise

log = structlog.get_logger()

FLUSH_S = 10.0


class Scheduler:
    """Runs the batches of one daemon."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.recorder = Recorder(context)
        self.lease = Lease(context)
        self.accounts = AccountLoad(lambda: context.config)
        self.pools: dict[str, Pool] = {}
        self._endings: dict[tuple[str, str | int], Callable[[], Awaitable[None]]] = {}
        self._ending_work = trio.Event()
        self._claiming: trio.Nursery | None = None
        self._attempts: trio.Nursery | None = None
        self._started = False
        self._stop_by = math.inf

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Scheduler"]:
        """Run for as long as the block does. Leaving it waits for what runs: until `drain`'s time is over, where that was
        called."""
        self.context.daemon = lambda: self.lease.daemon
        self.context.load.on_change = self._load_changed
        self.lease.on_lost = self._lease_lost
        self.recorder.on_room = self._wake_all
        await self.lease.begin()
        try:
            async with trio.open_nursery() as recording:
                await recording.start(supervise, "recorder", self.recorder.run)
                await recording.start(supervise, "lease", self.lease.run)
                failures = self.recorder.failures
                await recording.start(supervise, failures.name, failures.run)
                async with trio.open_nursery() as attempts:
                    self._attempts = attempts
                    async with trio.open_nursery() as claiming:
                        self._claiming = claiming
                        await self._start_claiming(claiming)
                        self._started = True
                        attempts.cancel_scope.deadline = self._stop_by
                        try:
                            yield self
                        finally:
                            claiming.cancel_scope.cancel()
                    recording.start_soon(self._give_up_places)
                recording.cancel_scope.cancel()
        finally:
            await self._write_the_rest()

    def drain(self, seconds: float) -> None:
        """Stop claiming and give back what has not started; what runs may go on for so long, and is then cut. A daemon may
        be told so while it still starts."""
        self._stop_by = trio.current_time() + seconds
        if self._started:  # a start that is cut here would end without the block that `running` owes
            assert self._claiming is not None
            assert self._attempts is not None
            self._claiming.cancel_scope.cancel()
            self._attempts.cancel_scope.deadline = self._stop_by

    def refresh(self) -> None:
        """The configuration changed: start pools for new models, and let all look again."""
        if self._claiming is None:
            return  # it will be read when it starts
        self.lease.renew_soon()
        for model in self.context.config.models:
            self.pool(model.id)
        self._look_all()

    def pool(self, model_id: str) -> Pool:
        """Return a model's pool; it is started where there is none yet."""
        pool = self.pools.get(model_id)
        if pool is None:
            assert self._attempts is not None
            assert self._claiming is not None
            pool = Pool(model_id, self.context, self.recorder, self.lease, self.accounts, self, self._attempts)
            self.pools[model_id] = pool
            self._claiming.start_soon(supervise, f"pool:{model_id}", pool.run)
        return pool

    def owner_gone(self, batch_id: str, why: str) -> None:
        """Fail the batch soon."""
        self._end_soon(("batch", batch_id), lambda: fail_owner(self.context, batch_id, why))

    def model_gone(self, lane: int) -> None:
        """Fail what the lane has queued soon."""
        self._end_soon(("lane", lane), lambda: fail_lane(self.context, lane))

    async def _start_claiming(self, nursery: trio.Nursery) -> None:
        sweeper = Sweeper(self.context)
        purger = JobRunner(self.context, "purge", purge)
        drains = Drains(self.context, self._look_all)
        for name, part in (
            ("take-over", self.lease.keep_taking_over),
            ("sweeper", sweeper.run),
            (purger.name, purger.run),
            (drains.name, drains.run),
            ("work", self._listen_for_work),
            ("closed", self._listen_for_closed),
            ("owners", self._listen_for_owners),
            ("places", self._listen_for_places),
            ("endings", self._run_endings),
        ):
            await nursery.start(supervise, name, part)
        self.refresh()

    async def _listen_for_work(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wake pools that have something to run. Models that are gone from the configuration have pools, too: their
        requests are failed there."""
        async with self.context.store.listen("work") as told:
            task_status.started()
            while True:
                try:
                    for model_id in await self.context.store.read(claims.models_with_work):
                        self.pool(model_id).wake(look=True)
                except StoreUnavailable:
                    log.warning("work cannot be looked for")
                with trio.move_on_at(beat(LOOK_IDLE_S)):
                    async for model_id in told:
                        self.pool(model_id).wake(look=True)

    async def _listen_for_closed(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with self.context.store.listen("closed") as told:
            task_status.started()
            async for batch_id in told:
                for pool in self.pools.values():
                    pool.withdraw(batch_id)

    async def _listen_for_owners(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with self.context.store.listen(accounts.CHANNEL) as told:
            task_status.started()
            async for account_id in told:
                for pool in self.pools.values():
                    pool.withdraw(account_id)
                    pool.wake(look=True)

    async def _listen_for_places(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with self.context.store.listen("places") as told:
            task_status.started()
            async for message in told:
                sender, _, model_id = message.partition(" ")
                if int(sender) != self.lease.daemon and (pool := self.pools.get(model_id)) is not None:
                    pool.places_moved()

    async def _give_up_places(self) -> None:
        """While this daemon stops, let others use its places as its last attempts end."""
        while True:
            try:
                for pool in self.pools.values():
                    await pool.give_up_places()
            except (StoreUnavailable, LeaseLost) as error:
                log.warning("places cannot be given up", error=str(error))
            await trio.sleep(PLACES_S)

    def _lease_lost(self) -> None:
        for pool in self.pools.values():
            pool.lease_lost()

    def _look_all(self) -> None:
        for pool in self.pools.values():
            pool.wake(look=True)

    def _wake_all(self) -> None:
        for pool in self.pools.values():
            pool.wake()

    def _load_changed(self, model_id: str) -> None:
        if (pool := self.pools.get(model_id)) is not None:
            pool.wake()

    def _end_soon(self, what: tuple[str, str | int], ending: Callable[[], Awaitable[None]]) -> None:
        self._endings.setdefault(what, ending)
        self._ending_work.set()

    async def _run_endings(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            await self._ending_work.wait()
            self._ending_work = trio.Event()
            for what, ending in list(self._endings.items()):
                try:
                    await ending()
                except StoreUnavailable as error:
                    log.warning("an ending waits for the store", error=str(error))  # its pool will ask for it again
                finally:
                    del self._endings[what]

    async def _write_the_rest(self) -> None:
        """Write what the last attempts left, even when cancelled, but not for ever: a daemon must be able to stop."""
        with trio.move_on_after(FLUSH_S, shield=True) as scope:
            try:
                await self.recorder.write_rest()
                await self.lease.end()
            except StoreUnavailable as error:
                log.warning("the lease is not given up, it will run out", error=str(error))
        if scope.cancelled_caught:
            log.error("stopped with outcomes unwritten; their requests run again when their leases end")
