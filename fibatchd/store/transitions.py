"""What scripts tell of a batch that moved on, once that is committed, in the process that did it: for its log and counts."""

from typing import Any

import msgspec

from fibatchd.domain.batches import Batch
from fibatchd.store.interface import Notify

CHANNEL = "transitions"


def begun(batch_id: str, account_id: str) -> Notify:
    """Return the notice that the first request of a batch was claimed."""
    return _notice({"batch": batch_id, "account": account_id, "status": "in_progress"})


def finalizing(batch: Batch) -> Notify:
    """Return the notice that a batch's requests are over and its result files are to be written."""
    return _notice({"batch": batch.id, "account": batch.account_id, "status": "finalizing"})


def ended(batch: Batch) -> Notify:
    """Return the notice that a batch has its final status; `cost` is pico-USD, times are seconds."""
    began, end = batch.in_progress_at, batch.ended_at or batch.created_at
    return _notice(
        {
            "batch": batch.id,
            "account": batch.account_id,
            "status": batch.status,
            "requests": {name: getattr(batch, name) for name in ("completed", "failed", "cancelled", "expired")},
            "cost": batch.cost,
            "cost_unknown_attempts": batch.cost_unknown,
            "age_s": end - batch.created_at,
            "run_s": None if began is None else end - began,
        }
    )


def _notice(what: dict[str, Any]) -> Notify:
    return Notify(CHANNEL, msgspec.json.encode(what).decode(), here=True)
