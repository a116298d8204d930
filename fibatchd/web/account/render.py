"""Values as the account API writes them. Times are whole Unix seconds, money exact decimals."""

from collections.abc import Sequence
from typing import Any

import msgspec

from fibatchd.domain.batches import Batch
from fibatchd.store.progress import ErrorCount
from fibatchd.store.spending import Spent
from fibatchd.web.account.waiting import Wait
from fibatchd.web.render import raw, seconds, usd

STATES = ("in_progress", "cancelling", "finalizing", "completed", "failed", "expired", "cancelled")
"""The states that a batch keeps the time of, in the order in which they may follow one another."""

SUCCEEDED = "succeeded"


def sums(spent: Spent) -> dict[str, Any]:
    """Return a sum over attempts."""
    return {
        "attempts": spent.attempts,
        "input_tokens": spent.input_tokens,
        "cached_tokens": spent.cached_tokens,
        "output_tokens": spent.output_tokens,
        "total_tokens": spent.input_tokens + spent.output_tokens,
        "cost_usd": usd(spent.cost),
        "cost_unknown_attempts": spent.cost_unknown,
    }


def outcome(status: str) -> str:
    """Return what this API calls a request's status."""
    return SUCCEEDED if status == "completed" else status


def batch_item(batch: Batch, models: Sequence[str], wait: Wait | None) -> dict[str, Any]:
    """Return a batch as the list shows it."""
    return {
        "object": "account.batch",
        "id": batch.id,
        "api": batch.api,
        "kind": batch.source,
        "endpoint": batch.endpoint,
        "status": batch.status,
        "label": batch.label,
        "models": models,
        "counts": _counts(batch),
        "tokens": _tokens(batch),
        "cost_usd": usd(batch.cost),
        "cost_unknown_attempts": batch.cost_unknown,
        "created_at": seconds(batch.created_at),
        "started_at": seconds(batch.in_progress_at),
        "ended_at": seconds(batch.ended_at),
        "expires_at": seconds(batch.expires_at),
        "results_expires_at": seconds(batch.delete_at),
        "metadata": raw(batch.metadata),
        "waiting": wait_object(wait),
        "error": {"code": batch.error_code, "message": batch.error_message} if batch.error_code else None,
        "input_file_id": batch.input_file_id,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "rerun_of": batch.rerun_of,
    }


def _counts(batch: Batch) -> dict[str, int]:
    return {
        "total": batch.total,
        "succeeded": batch.completed,
        "failed": batch.failed,
        "cancelled": batch.cancelled,
        "expired": batch.expired,
        "running": batch.running,
        "queued": batch.queued,
    }


def _tokens(batch: Batch) -> dict[str, int]:
    return {
        "input": batch.input_tokens,
        "cached": batch.cached_tokens,
        "output": batch.output_tokens,
        "reasoning": batch.reasoning_tokens,
        "total": batch.input_tokens + batch.output_tokens,
    }


def wait_object(wait: Wait | None) -> dict[str, Any] | None:
    """Return why a batch waits."""
    return None if wait is None else {"reason": wait.reason.name.lower(), "until": seconds(wait.until)}


def batch_detail(
    item: dict[str, Any], batch: Batch, errors: Sequence[ErrorCount], reruns: Sequence[str]
) -> dict[str, Any]:
    """Return a batch in full, `item` being what the list shows of it."""
    return item | {
        "timeline": timeline(batch),
        "errors": [{"outcome": error.outcome, "code": error.code, "count": error.count} for error in errors],
        "problems": _problems(batch),
        "reruns": reruns,
    }


def timeline(batch: Batch) -> list[dict[str, Any]]:
    """Return the states that a batch has been in, in order of time."""
    times = [(name, getattr(batch, f"{name}_at")) for name in STATES]
    entered = [("created", batch.created_at), *((name, at) for name, at in times if at is not None)]
    return [{"state": name, "at": int(at)} for name, at in sorted(entered, key=lambda entry: float(entry[1]))]


def _problems(batch: Batch) -> Any:
    """Return what stands in the list that `errors` is."""
    return [] if batch.errors is None else msgspec.json.decode(batch.errors)["data"]
