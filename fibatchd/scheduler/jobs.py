"""Runs durable background jobs of one kind: see store/jobs.py. A handler that fails gets its job again, later."""

from collections.abc import Awaitable, Callable

import structlog
import trio

from fibatchd.beat import beat
from fibatchd.context import Context
from fibatchd.errors import LeaseLost, StoreUnavailable, StoreUncertain
from fibatchd.store import jobs
from fibatchd.store.interface import NOW, Script
from fibatchd.store.jobs import Job

log = structlog.get_logger()

LOOK_S = 5.0
REGISTER_S = 0.2
AGAIN_S = 1.0  # between two tries to give a job back
RETRY_CAP_S = 60.0

Handler = Callable[[Context, Job], Awaitable[None]]


class JobRunner:
    """A service: takes jobs of `kind`, up to `at_once` side by side, and hands each to the handler, which removes it."""

    def __init__(self, context: Context, kind: str, handler: Handler, *, at_once: int = 1) -> None:
        self.name = f"jobs:{kind}"
        self._context = context
        self._kind = kind
        self._handler = handler
        self._limit = trio.CapacityLimiter(at_once)
        self._in_hand: set[str] = set()
        self._unsure = False  # whether the store may hold a job for this daemon that is not in hand

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take and run jobs until cancelled; a job that is cut short is taken again by whoever comes first."""
        self._unsure = True  # an earlier run that crashed has left its jobs leased to this daemon
        async with self._context.store.listen("jobs") as told, trio.open_nursery() as nursery:
            task_status.started()
            while True:
                await self._limit.acquire_on_behalf_of(token := object())
                try:
                    job = await self._take()
                except LeaseLost:
                    # This daemon has not registered yet, or has to do it anew: that takes a moment, and tells nobody.
                    self._limit.release_on_behalf_of(token)
                    await trio.sleep(REGISTER_S)
                    continue
                if job is not None:
                    self._in_hand.add(job.id)
                    nursery.start_soon(self._handle, job, token)
                    continue
                self._limit.release_on_behalf_of(token)
                with trio.move_on_at(beat(LOOK_S)):
                    async for kind in told:
                        if kind == self._kind:
                            break

    async def _take(self) -> Job | None:
        """Take a job; None where there is none, or the store cannot be reached. Raises LeaseLost."""
        store, daemon = self._context.store, self._context.daemon()
        try:
            if self._unsure:
                await store.write(jobs.give_back, self._kind, daemon, sorted(self._in_hand))
                self._unsure = False
            return await store.write(jobs.take, self._kind, daemon)
        except StoreUnavailable as error:
            self._unsure = self._unsure or isinstance(error, StoreUncertain)
            return None

    async def _handle(self, job: Job, token: object) -> None:
        try:
            await self._handler(self._context, job)
        except StoreUnavailable as error:
            wait = _wait(job)
            log.warning("job waits for the store", kind=job.kind, subject=job.subject, retry_in=wait, error=str(error))
            await self._postpone(job, wait)
        except Exception:
            wait = _wait(job)
            log.exception("job failed", kind=job.kind, subject=job.subject, retry_in=wait)
            await self._postpone(job, wait)
        finally:
            self._in_hand.discard(job.id)
            self._limit.release_on_behalf_of(token)

    async def _postpone(self, job: Job, wait: float) -> None:
        """Give the job back, to be taken again in so many seconds. Without the store that is tried until it works: the job
        stays leased to this daemon, which may be running for a long time yet."""
        while True:
            try:
                await self._context.store.write(_postpone, job, wait)
            except StoreUnavailable:
                await trio.sleep(max(wait, AGAIN_S))
                wait = 0.0
            else:
                return


def _wait(job: Job) -> float:
    return min(RETRY_CAP_S, 2.0 ** min(job.attempts, 10))


def _postpone(job: Job, wait: float) -> Script[None]:
    ((now,),) = yield NOW
    yield from jobs.postpone(job, now + wait)
