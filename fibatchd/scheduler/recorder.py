"""Writes outcomes to the store in groups: while one group is committed the next one gathers.

An attempt hands its outcome over and is done, so its place at the upstream is free at once; until the commit the
request is still running for every reader, and a crash loses the answer, not the request.
"""

import math
from collections import Counter
from collections.abc import Mapping

import structlog
import trio
from msgspec.structs import replace

from fibatchd.context import Context
from fibatchd.domain.requests import Claimed, Failure, Outcome
from fibatchd.errors import StoreUnavailable
from fibatchd.metrics import Distribution
from fibatchd.scheduler.failures import Failures
from fibatchd.scheduler.hooks import end_anyway
from fibatchd.store.record import record
from fibatchd.store.spending import BATCH

log = structlog.get_logger()

GROUP_MAX = 256
GATHER_S = 0.01  # from group to group, unless one is full: a commit costs as much as recording ten outcomes
BACKLOG_MAX = 4 * GROUP_MAX
RETRY_FIRST_S = 0.1
RETRY_CAP_S = 5.0
GROUP_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, GROUP_MAX)
UNSTORABLE = Failure("upstream_error", "The result could not be stored", 500)


def _nothing() -> None:
    """Be called when there is room, and nobody waits for it."""


class Recorder:
    """Takes outcomes without waiting; `run` writes them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pending: list[Outcome] = []
        self._work = trio.Event()
        self.on_room = _nothing
        """Called when it is no longer full; whoever starts attempts sets it."""
        self.failures = Failures()
        self.groups = Distribution(GROUP_BOUNDS)
        """How many outcomes one transaction recorded."""

    def put(self, outcome: Outcome) -> None:
        """Hand over one outcome."""
        self._pending.append(outcome)
        self._work.set()

    def waiting(self) -> list[Claimed]:
        """Return the attempts whose outcomes are not known to be stored."""
        return [outcome.claimed for outcome in self._pending]

    def unwritten(self) -> Mapping[str, int]:
        """Return what those attempts cost, as far as it is known, by account."""
        costs: Counter[str] = Counter()
        for outcome in self._pending:
            costs[outcome.claimed.account_id] += outcome.cost or 0
        return costs

    @property
    def full(self) -> bool:
        """Whether so many outcomes wait (the store cannot be written, perhaps) that nothing more should be started."""
        return len(self._pending) >= BACKLOG_MAX

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write groups until cancelled."""
        gathered_at = -math.inf
        task_status.started()
        while True:
            await self._work.wait()
            if len(self._pending) < GROUP_MAX:
                await trio.sleep_until(gathered_at)
            gathered_at = trio.current_time() + GATHER_S
            group = self._pending[:GROUP_MAX]
            await self._write(group)
            was_full = self.full
            # Only now, so that a cancelled write leaves its outcomes to the last flush.
            del self._pending[: len(group)]
            if not self._pending:
                self._work = trio.Event()
            if was_full and not self.full:
                self.on_room()

    async def write_rest(self) -> None:
        """Write all that is left, `run` being over. What a cancelled write may have done already is refused the second
        time, row by row."""
        while self._pending:
            group = self._pending[:GROUP_MAX]
            await self._write(group)
            del self._pending[: len(group)]

    async def _write(self, group: list[Outcome]) -> None:
        wait = RETRY_FIRST_S
        while True:
            try:
                if len(group) == 1:
                    accepted = await end_anyway(self._context, record, group)
                else:
                    accepted = await self._context.store.write(record, group, self._context.policy)
            except StoreUnavailable as error:
                log.warning("outcomes wait for the store", count=len(self._pending), error=str(error))
                await trio.sleep(wait)
                wait = min(wait * 2, RETRY_CAP_S)
            except Exception:
                # One outcome that the store refuses, or whose batch a plugin cannot let end, must not hold up all others:
                # find it by writing each alone.
                if len(group) > 1:
                    for outcome in group:
                        await self._write([outcome])
                    return
                log.exception("an outcome cannot be stored", request=group[0].claimed.number)
                if group[0].failure == UNSTORABLE:
                    return
                # Without its counts, too: they may be what cannot be stored.
                group = [
                    replace(group[0], answer=None, failure=UNSTORABLE, retry_in=None, usage=None, cost=None, sent=True)
                ]
            else:
                if accepted < len(group):
                    log.warning("results refused: their leases were lost", count=len(group) - accepted)
                self._count(group)
                return

    def _count(self, group: list[Outcome]) -> None:
        self.groups.observe(len(group))
        for outcome in group:
            if outcome.sent:
                self._context.tally.count(outcome.claimed.model, BATCH, outcome)
            self.failures.note(outcome)
