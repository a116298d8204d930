"""Batches and their results as the Message Batches API writes them. A message that was stored goes in as it stands."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from fibatchd.plugin_api import Batch, Result, rawjson, results

from .errors import error_object, type_of_code

_encode = msgspec.json.Encoder().encode

# A line for a request that succeeded, before and behind its message.
_SUCCEEDED = b'{"custom_id":%b,"result":{"type":"succeeded","message":'
_SUCCEEDED_END = b"}}\n"


def batch_object(batch: Batch, results_url: str) -> dict[str, Any]:
    """Return a batch. All its requests count as processing until it has ended; only then `results_url` is told."""
    ended = batch.is_final
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": _status(batch),
        "request_counts": {
            "processing": 0 if ended else batch.total,
            "succeeded": batch.completed if ended else 0,
            "errored": batch.failed if ended else 0,
            "canceled": batch.cancelled if ended else 0,
            "expired": batch.expired if ended else 0,
        },
        "created_at": _time(batch.created_at),
        "expires_at": _time(batch.expires_at),
        "ended_at": _time(batch.ended_at),
        "archived_at": None,
        "cancel_initiated_at": _time(batch.cancelling_at),
        "results_url": results_url if ended else None,
    }


def page_object(items: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Return a page of batches."""
    return {
        "data": items,
        "has_more": has_more,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
    }


def result_lines(piece: results.Piece) -> bytes:
    """Return a line for each result of a batch that has ended."""
    parts: list[bytes] = []
    for row in piece.rows:
        _, custom_id, status, _, _, message, _, _, _ = row
        if status == "completed":
            parts += (_SUCCEEDED % _encode(custom_id), message or b"null", _SUCCEEDED_END)
        else:
            parts += (_encode({"custom_id": custom_id, "result": _failed(piece.result(row))}), b"", b"\n")
    return rawjson.jsonl(parts)


def _failed(result: Result) -> dict[str, Any]:
    match result.status:
        case "cancelled":
            return {"type": "canceled"}
        case "expired":
            return {"type": "expired"}
    failure = result.failure
    assert failure is not None, "a request of an ended batch that has no other end has failed"
    return {"type": "errored", "error": error_object(type_of_code(failure.code), failure.message, result.request_id)}


def _status(batch: Batch) -> str:
    if batch.is_final:
        return "ended"
    return "canceling" if batch.cancelling_at is not None else "in_progress"


def _time(seconds: float | None) -> str | None:
    """Write a time as RFC 3339 has it, in UTC and whole seconds."""
    return None if seconds is None else datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
