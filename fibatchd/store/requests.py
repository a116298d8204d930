"""Scripts on the single requests of a batch: as rows of a table, one in full, and those that may be run again.

Which rows are wanted is found in the narrow table alone; what is wide is read for those only, by primary key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Result, Submitted
from fibatchd.store.interface import Query, Row, Rows, Script, one
from fibatchd.store.results import Range, closing_of, result_from

OUTCOMES = ("queued", "running", "completed", "failed", "cancelled", "expired")
"""How a request stands, as a Result tells it; a batch counts its requests under the same names."""

_STORED = ("running", "completed", "failed")  # "queued" reads as what the batch was closed as, once it was

_ROW = """
SELECT r.number, b.custom_id, r.status, r.request_id, s.status_code,
    CASE WHEN LENGTH(s.body) <= ? THEN s.body END,
    r.error_code, r.error_message, r.error_status, l.model, r.attempts, r.started_at, r.ended_at
FROM requests r JOIN request_bodies b ON b.number = r.number
LEFT JOIN lanes l ON l.id = r.lane LEFT JOIN results s ON s.number = r.number
WHERE r.number = ANY(?) ORDER BY r.number
"""
_RESULT_WIDTH = 9


@dataclass(frozen=True, slots=True)
class Entry:
    """A request with how it went. `index` counts from 0; the result's `body` is None also where it is larger than asked
    for. Times are the last attempt's, by the store's clock; `model` is "" for a request that its own check refused."""

    index: int
    result: Result
    model: str
    attempts: int
    started_at: float | None
    ended_at: float | None


def page(
    batch: Batch, outcomes: Sequence[str] | None, *, after: int, limit: int, max_answer: int
) -> Script[tuple[list[Entry], bool]]:
    """Return up to `limit` requests behind index `after` (-1: from the first), in submission order, and whether more
    follow. Only those of some `outcomes`, where given; answers up to `max_answer` bytes come along."""
    if outcomes is not None and not any(getattr(batch, name) for name in outcomes):
        return [], False  # to find none, all of the batch's requests would be gone through
    closing = yield from closing_of(batch)
    whole = Range.of(batch)
    numbers = yield from _numbers(outcomes, closing[0], whole.first + after + 1, whole.last, limit + 1)
    rows = yield Query(_ROW, (max_answer, numbers[:limit]))
    return [_entry(row, closing, whole.first) for row in rows], len(numbers) > limit


def _numbers(
    outcomes: Sequence[str] | None, closed_as: str | None, first: int, last: int, limit: int
) -> Script[list[int]]:
    if outcomes is None:
        return list(range(first, min(last + 1, first + limit)))
    statuses = [status for status in _STORED if status in outcomes]
    if (closed_as or "queued") in outcomes:
        statuses.append("queued")
    rows = yield Query(
        "SELECT number FROM requests WHERE number >= ? AND number <= ? AND status = ANY(?) ORDER BY number LIMIT ?",
        (first, last, statuses, limit),
    )
    return [number for (number,) in rows]


def one_of(batch: Batch, index: int, max_answer: int) -> Script[tuple[Entry, bytes] | None]:
    """Return a request with its body; None where the batch has none of this index, or was purged."""
    closing = yield from closing_of(batch)
    whole = Range.of(batch)
    number = whole.first + index
    if number > whole.last:
        return None
    rows = yield Query(_ROW, (max_answer, [number]))
    body = one((yield Query("SELECT body FROM request_bodies WHERE number = ?", (number,))))
    return (_entry(rows[0], closing, whole.first), bytes(body[0])) if rows and body else None


def _entry(row: Row, closing: tuple[str | None, str | None], first: int) -> Entry:
    model, attempts, started_at, ended_at = row[_RESULT_WIDTH:]
    result = result_from(row[:_RESULT_WIDTH], *closing)
    return Entry(row[0] - first, result, model or "", attempts, started_at, ended_at)


def submitted(
    batch: Batch, outcomes: Sequence[str], first: int, *, max_rows: int, max_bytes: int
) -> Script[tuple[list[Submitted], int]]:
    """Return requests of some outcomes as they were sent, numbered `first` on, within both bounds but at least one; and
    the number to go on from. An empty list: there are no more."""
    closed_as, _ = yield from closing_of(batch)
    numbers = yield from _numbers(outcomes, closed_as, first, Range.of(batch).last, max_rows)
    sizes = yield Query(
        "SELECT number, LENGTH(body) FROM request_bodies WHERE number = ANY(?) ORDER BY number", (numbers,)
    )
    taken = _within(sizes, max_bytes)
    rows = yield Query("SELECT custom_id, body FROM request_bodies WHERE number = ANY(?) ORDER BY number", (taken,))
    return [Submitted(custom_id, bytes(body)) for custom_id, body in rows], taken[-1] + 1 if taken else first


def _within(sizes: Rows, max_bytes: int) -> list[int]:
    taken: list[int] = []
    total = 0
    for number, size in sizes:
        if taken and total + size > max_bytes:
            break
        taken.append(number)
        total += size
    return taken
