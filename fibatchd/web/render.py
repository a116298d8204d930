"""Values as the OpenAI-shaped API writes them: batches, results, lists, errors, lines of result files.

What a client or an upstream wrote as JSON goes in as it stands. Field order is that of the API's documentation.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from fibatchd import rawjson
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Failure, Result
from fibatchd.ids import batch_request_id
from fibatchd.money import usd_text
from fibatchd.store.results import Piece

encode = msgspec.json.Encoder().encode

# What succeeded, before and behind its answer: a line of a result file, and an item of a page.
_ANSWERED = b'{"id":"batch_req_%d","custom_id":%b,"response":{"status_code":%d,"request_id":%b,"body":'
_COMPLETED = _ANSWERED.replace(b'"response"', b'"status":"completed","response"')
_END = b'},"error":null}'
_LINE_END = _END + b"\n"

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def error_object(status: int, message: str, param: str | None, code: str | None) -> dict[str, Any]:
    """Return OpenAI's error body."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def batch_object(batch: Batch) -> bytes:
    """Return a batch's JSON. `model` is there only for a batch that has one."""
    fields: dict[str, Any] = {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": raw(batch.errors),
        "input_file_id": batch.input_file_id,
        "completion_window": _window(round(batch.expires_at - batch.created_at)),
        "status": batch.status,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": int(batch.created_at),
        "in_progress_at": seconds(batch.in_progress_at),
        "expires_at": int(batch.expires_at),
        "finalizing_at": seconds(batch.finalizing_at),
        "completed_at": seconds(batch.completed_at),
        "failed_at": seconds(batch.failed_at),
        "expired_at": seconds(batch.expired_at),
        "cancelling_at": seconds(batch.cancelling_at),
        "cancelled_at": seconds(batch.cancelled_at),
        "request_counts": {
            "total": batch.total,
            "completed": batch.completed,
            "failed": batch.failed + batch.expired,
        },
        "metadata": raw(batch.metadata),
        "usage": {
            "input_tokens": batch.input_tokens,
            "output_tokens": batch.output_tokens,
            "total_tokens": batch.input_tokens + batch.output_tokens,
        },
        "cost_usd": usd(batch.cost),
        "cost_unknown_attempts": batch.cost_unknown,
        "results_expires_at": seconds(batch.delete_at),
        "error": {"code": batch.error_code, "message": batch.error_message} if batch.error_code else None,
    }
    if batch.model is not None:
        fields["model"] = batch.model
    return encode(fields)


def list_object(items: Sequence[bytes], ids: Sequence[str], *, has_more: bool) -> bytes:
    """Return a page of a list: `items` as JSON, with the ids that stand for them as cursors."""
    before, after = list_frame(ids[0] if ids else None, ids[-1] if ids else None, has_more=has_more)
    return b"".join([before, b",".join(items), after])


def list_frame(first_id: str | None, last_id: str | None, *, has_more: bool) -> tuple[bytes, bytes]:
    """Return what stands before and behind the items of a page, for one that is sent piece by piece."""
    rest = encode({"has_more": has_more, "first_id": first_id, "last_id": last_id})
    return b'{"object":"list","data":[', b"]," + rest[1:]


def result_objects(piece: Piece) -> bytes:
    """Return consecutive items of a page of results, with commas between them."""
    items: list[bytes] = []
    for row in piece.rows:
        number, custom_id, status, request_id, status_code, body, _, _, _ = row
        if status == "completed" and body is not None:
            before = _COMPLETED % (number, encode(custom_id), status_code, encode(request_id))
            items.append(b"".join((before, body, _END)))
        else:
            items.append(_unanswered_object(piece.result(row)))
    return b",".join(items)


def _unanswered_object(result: Result) -> bytes:
    failure = result.failure if result.status != "cancelled" else None
    return encode(
        {
            "id": batch_request_id(result.number),
            "custom_id": result.custom_id,
            "status": result.status,
            "response": None,
            "error": _error_member(failure) if failure else None,
        }
    )


def output_line(result: Result) -> bytes:
    """Return one line of a result file."""
    return output_lines(Piece.of(result))


def output_lines(piece: Piece) -> bytes:
    """Return the lines of a result file for requests of a finished batch, in the shape of OpenAI's.

    A request that got an HTTP error has it as its response; one that never ran, or whose answer was not kept, has none.
    """
    parts: list[bytes] = []
    for row in piece.rows:
        number, custom_id, status, request_id, status_code, body, _, _, _ = row
        if status == "completed" and body is not None:
            before = _ANSWERED % (number, encode(custom_id), status_code, encode(request_id))
            parts += (before, body, _LINE_END)
        else:
            parts += (_unanswered_line(piece.result(row)), b"", b"\n")
    return rawjson.jsonl(parts)


def _unanswered_line(result: Result) -> bytes:
    response, error, failure = None, None, result.failure
    if failure is not None and failure.status is not None and failure.code != "result_too_large":
        body = error_object(failure.status, failure.message, None, failure.code)
        response = {"status_code": failure.status, "request_id": result.request_id, "body": body}
    elif failure is not None:
        error = {"code": failure.code, "message": failure.message}
    line = {"id": batch_request_id(result.number), "custom_id": result.custom_id, "response": response, "error": error}
    return encode(line)


def _error_member(failure: Failure) -> dict[str, Any]:
    error: dict[str, Any] = {"code": failure.code, "message": failure.message}
    return error | {"status": failure.status} if failure.status is not None else error


def usd(pico: int) -> msgspec.Raw:
    """Return pico-USD as a JSON number, digit by digit."""
    return msgspec.Raw(usd_text(pico).encode())


def seconds(time: float | None) -> int | None:
    """Return a time in whole seconds."""
    return None if time is None else int(time)


def raw(text: str | None) -> msgspec.Raw | None:
    """Return JSON text as it stands."""
    return None if text is None else msgspec.Raw(text.encode())


def _window(span: int) -> str:
    """Write a completion window as `24h`, in the largest unit that leaves it whole."""
    for unit, size in (("h", 3600), ("m", 60)):
        if span and span % size == 0:
            return f"{span // size}{unit}"
    return f"{span}s"
