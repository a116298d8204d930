"""The books of interactive calls: what they spent is written behind their answers, many calls at a time.

A call's cost counts against the quota at once (`pending`), though the store has it a moment later. Without the store
the sums are kept, one for each account and model, until it is back.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import trio

from fibatchd.errors import StoreError, StoreUnavailable, StoreUncertain
from fibatchd.inference.execute import Attempt
from fibatchd.inference.tally import Tally
from fibatchd.store.interface import Store
from fibatchd.store.spending import INTERACTIVE, Spent, record_interactive

RETRY_S = 1.0
FLUSH_S = 5.0
"""A write has this long to end once nobody wants to wait any more."""

Part = tuple[str, str, Spent]
"""Account, model, and what was spent there."""

log = structlog.get_logger(__name__)


class Bookkeeper:
    """Takes attempts and writes their sums, in a task of its own (`run`)."""

    name = "bookkeeper"

    def __init__(self, store: Store, tally: Tally | None = None) -> None:
        self._store = store
        self._tally = tally or Tally()
        self._waiting: dict[tuple[str, str], Spent] = {}
        self._under_way: dict[tuple[str, str], Spent] = {}
        self._work = trio.Event()

    def record(self, account_id: str, model_id: str, attempt: Attempt) -> None:
        """Note how an attempt at an interactive call ended. One that reached no upstream spent nothing."""
        if not attempt.sent:
            return
        self._tally.count(model_id, INTERACTIVE, attempt)
        self._waiting.setdefault((account_id, model_id), Spent()).note(attempt.usage, attempt.cost)
        self._work.set()

    def pending(self, account_id: str) -> int:
        """Return what an account has spent that the store does not know yet, in pico-USD."""
        parts = (self._waiting, self._under_way)
        return sum(spent.cost for part in parts for (owner, _), spent in part.items() if owner == account_id)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; then write what is left."""
        task_status.started()
        try:
            while True:
                await self._work.wait()
                if not await self._write():
                    await trio.sleep(RETRY_S)
        finally:
            await self._write()

    async def _write(self) -> bool:
        """Write all that waits; False where the store cannot now. A write begun is waited for, however long the store takes
        to say that it cannot, since nobody could tell whether one that was cut short is stored."""
        self._work = trio.Event()
        self._under_way, self._waiting = self._waiting, {}
        parts = [(account_id, model_id, spent) for (account_id, model_id), spent in self._under_way.items()]
        left: list[Part] = []
        async with _until_cancelled_and(FLUSH_S) as scope:
            if parts:
                left = await self._store_parts(parts)
        if scope.cancelled_caught:
            log.error("spending not recorded in time, it may be lost", accounts=sorted({part[0] for part in parts}))
        self._under_way = {}
        if left:
            self._put_back({(account_id, model_id): spent for account_id, model_id, spent in left})
        return not left

    async def _store_parts(self, parts: list[Part]) -> list[Part]:
        """Write these sums, and return those that the store could not take now. One that it never will is given up, and
        takes no other with it."""
        try:
            await self._store.write(record_interactive, parts)
        except StoreUncertain as uncertain:
            return [] if await self._was_stored(uncertain) else parts
        except StoreUnavailable:
            return parts
        except StoreError:
            if len(parts) > 1:
                return [left for part in parts for left in await self._store_parts([part])]
            log.exception("spending cannot be stored", account=parts[0][0], model=parts[0][1])
        return []

    async def _was_stored(self, uncertain: StoreUncertain) -> bool:
        """Ask until the store can tell: what is written a second time is spent twice."""
        while True:
            try:
                return await self._store.was_stored(uncertain)
            except StoreUnavailable:
                await trio.sleep(RETRY_S)

    def _put_back(self, kept: dict[tuple[str, str], Spent]) -> None:
        for key, spent in self._waiting.items():
            if key in kept:
                kept[key].add(spent)
            else:
                kept[key] = spent
        self._waiting = kept
        self._work.set()


@asynccontextmanager
async def _until_cancelled_and(seconds: float) -> AsyncIterator[trio.CancelScope]:
    """Shield the block from being cancelled, but only for so long after it would have been."""
    scope = trio.CancelScope(shield=True)

    async def count_down() -> None:
        try:
            await trio.sleep_forever()
        finally:
            scope.deadline = trio.current_time() + seconds

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_down)
        with scope:
            yield scope
        nursery.cancel_scope.cancel()
