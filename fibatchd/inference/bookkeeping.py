"""The books of interactive calls: what they spent is written behind their answers, many calls at a time.

A call's cost counts against the quota at once (`pending`), though the store has it a moment later. Without the store
the sums are kept, one for each account and model, until it is back.
"""

import structlog
import trio

from fibatchd.errors import StoreUnavailable
from fibatchd.inference.execute import Attempt
from fibatchd.inference.tally import Tally
from fibatchd.store.interface import Store
from fibatchd.store.spending import INTERACTIVE, Spent, record_interactive

RETRY_S = 1.0
FLUSH_S = 5.0
"""A write has this long to end once nobody wants to wait any more."""

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
        spent = self._waiting.setdefault((account_id, model_id), Spent())
        spent.attempts += 1
        if attempt.cost is None:
            spent.cost_unknown += 1
        else:
            spent.cost += attempt.cost
        if usage := attempt.usage:
            spent.input_tokens += usage.input_tokens
            spent.cached_tokens += usage.cached_tokens
            spent.output_tokens += usage.output_tokens
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
        """Write all that waits; False where the store cannot now. A write begun is waited for, since nobody could tell
        whether one that was cut short is stored."""
        self._work = trio.Event()
        self._under_way, self._waiting = self._waiting, {}
        parts = [(account_id, model_id, spent) for (account_id, model_id), spent in self._under_way.items()]
        stored = True
        with trio.CancelScope(shield=True, deadline=trio.current_time() + FLUSH_S) as scope:
            try:
                if parts:
                    await self._store.write(record_interactive, parts)
            except StoreUnavailable:
                stored = False
        if scope.cancelled_caught:
            log.error("spending not recorded in time, it may be lost", accounts=sorted({part[0] for part in parts}))
        done, self._under_way = self._under_way, {}
        if not stored:
            self._put_back(done)
        return stored

    def _put_back(self, kept: dict[tuple[str, str], Spent]) -> None:
        for key, spent in self._waiting.items():
            if key in kept:
                _add(kept[key], spent)
            else:
                kept[key] = spent
        self._waiting = kept
        self._work.set()


def _add(total: Spent, part: Spent) -> None:
    total.attempts += part.attempts
    total.input_tokens += part.input_tokens
    total.cached_tokens += part.cached_tokens
    total.output_tokens += part.output_tokens
    total.cost += part.cost
    total.cost_unknown += part.cost_unknown
