"""The housekeeping: completion windows, owners that are gone, retention, leftovers. Every step may be repeated, on any
daemon, at any time."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
import trio

from fibatchd.context import Context
from fibatchd.errors import StoreUnavailable
from fibatchd.scheduler.attempt import MODEL_GONE
from fibatchd.scheduler.hooks import end_anyway
from fibatchd.scheduler.jobs import RETRY_CAP_S
from fibatchd.scheduler.sweeping import keep_sweeping
from fibatchd.store import admission, ending, leases, sweeps
from fibatchd.store.jobs import Job, done

log = structlog.get_logger()

SWEEP_S = 1.0
SELDOM_S = 60.0
LATE_S = 60.0  # what is later than that is due by another clock
BATCHES_AT_ONCE = 100
ROWS_AT_ONCE = 1000
STAGING_MAX_S = 3600.0


class Sweeper:
    """Sweeps once a second; what costs more, once a minute."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._begun = False
        self._seldom_at = 0.0
        self._skipped: dict[str, float] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sweep until cancelled."""
        if not self._context.store.shared and not self._begun:
            await self._abandon_staging(all_of_them=True)
        self._begun = True  # from now on what is staged is this process's own, also where this part is started again
        self._seldom_at = trio.current_time()
        task_status.started()
        await keep_sweeping(
            self._sweep, SWEEP_S, lambda error: log.warning("housekeeping waits for the store", error=str(error))
        )

    async def _sweep(self) -> None:
        due = await self._context.store.read(sweeps.due, BATCHES_AT_ONCE)
        await self._expire(due.to_expire)
        await self._fail_owners(due.without_owner)
        await self._delete(due.to_delete)
        if trio.current_time() >= self._seldom_at:
            self._seldom_at = trio.current_time() + SELDOM_S
            await self._forget_keys()
            await self._abandon_staging()
            await self._bring_forward()

    async def _expire(self, batch_ids: list[str]) -> None:
        for batch_id in self._not_skipped(batch_ids):
            with self._alone(batch_id):
                await end_anyway(self._context, ending.expire, batch_id)
                log.info("completion window closed", batch=batch_id)

    async def _fail_owners(self, batch_ids: list[str]) -> None:
        for batch_id in self._not_skipped(batch_ids):
            with self._alone(batch_id):
                await fail_owner(
                    self._context, batch_id, "The key or account that created the batch is no longer valid"
                )

    async def _delete(self, batch_ids: list[str]) -> None:
        for batch_id in self._not_skipped(batch_ids):
            with self._alone(batch_id):
                await end_anyway(self._context, sweeps.delete_ended, batch_id)
                log.info("batch deleted, its retention is over", batch=batch_id)

    def _not_skipped(self, batch_ids: list[str]) -> list[str]:
        now = trio.current_time()
        self._skipped = {batch_id: until for batch_id, until in self._skipped.items() if until > now}
        return [batch_id for batch_id in batch_ids if batch_id not in self._skipped]

    @contextmanager
    def _alone(self, batch_id: str) -> Iterator[None]:
        """Keep what is wrong with one batch from the others: it is logged, and left alone for a while."""
        try:
            yield
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("housekeeping of a batch failed", batch=batch_id, again_in=SELDOM_S)
            self._skipped[batch_id] = trio.current_time() + SELDOM_S

    async def _forget_keys(self) -> None:
        while await self._context.store.write(sweeps.forget_keys, ROWS_AT_ONCE):
            pass

    async def _bring_forward(self) -> None:
        settings = self._context.config.batches
        longest = max(settings.retry_cap_s, settings.retry_after_cap_s, RETRY_CAP_S)
        while count := await self._context.store.write(sweeps.bring_forward, longest + LATE_S, ROWS_AT_ONCE):
            log.warning("due at once: it was put off while the clock was ahead", count=count)

    async def _abandon_staging(self, *, all_of_them: bool = False) -> None:
        store = self._context.store
        for batch_id in await store.read(sweeps.stale_staging, STAGING_MAX_S, all_of_them=all_of_them):
            await store.write(admission.abandon, batch_id)


async def fail_owner(context: Context, batch_id: str, why: str) -> None:
    """End a batch whose key or account is no longer valid."""
    if await end_anyway(context, ending.fail, batch_id, "owner_unauthorized", why):
        log.warning("batch failed: its owner is no longer valid", batch=batch_id, reason=why)


async def fail_lane(context: Context, lane: int) -> None:
    """Fail what is queued in a lane whose model is gone, a chunk at a time."""
    if context.store.shared and await _is_elsewhere(context, lane):
        return
    failed = 0
    while count := await end_anyway(context, sweeps.fail_lane, lane, MODEL_GONE, ROWS_AT_ONCE):
        failed += count
    log.warning("requests failed: their model is gone", lane=lane, count=failed)


async def _is_elsewhere(context: Context, lane: int) -> bool:
    """Whether a lane's model is one that this daemon lacks and another has: its configuration is older, or newer."""
    model = await context.store.read(sweeps.model_of, lane)
    if model is None or context.config.find_model(model) is not None:
        return False
    return await context.store.read(leases.others_have, model, context.daemon())


async def purge(context: Context, job: Job) -> None:
    """Remove a deleted batch's rows."""
    while await context.store.write(sweeps.purge, job.subject):
        pass
    await context.store.write(done, job)
