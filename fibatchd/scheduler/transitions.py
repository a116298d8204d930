"""A line in the log for each step of a batch that this daemon has done, and counts of how batches and requests ended."""

from collections import Counter
from typing import Any

import msgspec
import structlog
import trio

from fibatchd.domain import states
from fibatchd.metrics import Labels
from fibatchd.money import usd_text
from fibatchd.store import transitions
from fibatchd.store.interface import Store

log = structlog.get_logger(__name__)

LAST_S = 0.05
"""What was told before the end is still logged; it is there already, so this is long."""


class Transitions:
    """A service: hears what the store's scripts tell once they are committed. It outlives whoever runs scripts."""

    name = "transitions"

    def __init__(self, store: Store) -> None:
        self._store = store
        self.batches: Counter[Labels] = Counter({(status,): 0 for status in states.FINAL})
        """Batches that ended, by final status."""
        self.requests: Counter[Labels] = Counter({(status,): 0 for status in states.FINAL})
        """Requests of those batches, by how they ended."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Log and count until cancelled."""
        async with self._store.listen(transitions.CHANNEL) as told:
            task_status.started()
            try:
                async for notice in told:
                    self._note(msgspec.json.decode(notice))
            finally:
                with trio.move_on_after(LAST_S, shield=True):
                    async for notice in told:
                        self._note(msgspec.json.decode(notice))

    def _note(self, notice: dict[str, Any]) -> None:
        status, batch = notice["status"], {"batch": notice["batch"], "account": notice["account"]}
        if status not in states.FINAL:
            log.info("batch moved on", **batch, status=status)
            return
        self.batches[status,] += 1
        for how, count in notice["requests"].items():
            self.requests[how,] += count
        log.info(
            "batch ended",
            **batch,
            status=status,
            **notice["requests"],
            cost_usd=usd_text(notice["cost"]),
            cost_unknown_attempts=notice["cost_unknown_attempts"],
            age_s=round(notice["age_s"], 3),
            run_s=None if notice["run_s"] is None else round(notice["run_s"], 3),
        )
