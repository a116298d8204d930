"""Scripts that read a batch's requests with their outcomes, in submission order, a bounded piece at a time.

A batch's requests have consecutive numbers, so a page is a range of the primary key and needs no counting.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import astuple

from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Failure, Result
from fibatchd.store.interface import Query, Row, Rows, Script, one

# Each table's own range is spelled out: a planner that has no statistics yet would read the others whole.
_RESULT = """
SELECT r.number, b.custom_id, r.status, r.request_id, s.status_code, s.body, r.error_code, r.error_message, r.error_status
FROM requests r JOIN request_bodies b ON b.number = r.number AND b.number >= ? AND b.number <= ?
LEFT JOIN results s ON s.number = r.number AND s.number >= ? AND s.number <= ?
WHERE r.number >= ? AND r.number <= ? ORDER BY r.number
"""
_SIZE = "SELECT CAST(COALESCE(SUM(LENGTH(body)), 0) AS BIGINT) FROM results WHERE number >= ? AND number <= ?"
_SIZES = """
SELECT r.number, COALESCE(LENGTH(s.body), 0) FROM requests r
LEFT JOIN results s ON s.number = r.number AND s.number >= ? AND s.number <= ?
WHERE r.number >= ? AND r.number <= ? ORDER BY r.number
"""

NEVER_RAN = {
    "cancelled": ("batch_cancelled", "The batch was cancelled before the request ran"),
    "expired": ("batch_expired", "The completion window closed before the request ran"),
    "failed": ("batch_failed", "The batch failed before the request ran"),
}
"""Code and message of requests that a batch's end overtook, by what it was closed as."""


@dataclass(frozen=True, slots=True)
class Range:
    """A batch's requests by number, both ends included; empty where `last` < `first`."""

    first: int
    last: int

    @classmethod
    def of(cls, batch: Batch) -> "Range":
        """Return all of a batch's requests."""
        if batch.first_number is None:
            return cls(1, 0)
        return cls(batch.first_number, batch.first_number + batch.total - 1)


class Piece:
    """Consecutive results of a batch. Iterating makes a Result of each.

    Whoever writes thousands takes the columns of those that succeeded straight from `rows` (number, custom_id, status,
    request_id, status_code, body and three of its failure), and saves a fifth of the time. The others are told by `result`.
    """

    __slots__ = ("_closing", "rows")

    def __init__(self, rows: Rows, closing: tuple[str | None, str | None] = (None, None)) -> None:
        self.rows = rows
        self._closing = closing

    @classmethod
    def of(cls, *results: Result) -> "Piece":
        """Return results as they would have been read."""
        rows: Rows = []
        for result in results:
            *columns, failure = astuple(result)
            rows.append((*columns, *((failure.code, failure.message, failure.status) if failure else (None,) * 3)))
        return cls(rows)

    @property
    def first(self) -> int:
        """Return the first one's number."""
        number: int = self.rows[0][0]
        return number

    @property
    def last(self) -> int:
        """Return the last one's number."""
        number: int = self.rows[-1][0]
        return number

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Result]:
        return map(self.result, self.rows)

    def result(self, row: Row) -> Result:
        """Return one of `rows`, with what the batch's end made of it."""
        return result_from(row, *self._closing)

    def split(self) -> tuple["Piece", "Piece"]:
        """Return those that succeeded, and all others."""
        succeeded = [row for row in self.rows if row[2] == "completed"]
        others = [row for row in self.rows if row[2] != "completed"]
        return Piece(succeeded, self._closing), Piece(others, self._closing)


def piece(batch: Batch, first: int, last: int, *, max_rows: int, max_bytes: int) -> Script[Piece]:
    """Return the results numbered `first` to `last`, or as many from the first on as fit both bounds; at least one."""
    end = min(last, first + max_rows - 1)
    ((whole,),) = yield Query(_SIZE, (first, end))
    if whole > max_bytes:
        sizes = yield Query(_SIZES, (first, end) * 2)
        end, total = first, 0
        for number, size in sizes:
            if number > first and total + size > max_bytes:
                break
            end, total = number, total + size
    return (yield from between(batch, first, end))


def between(batch: Batch, first: int, last: int) -> Script[Piece]:
    """Return the results numbered `first` to `last`, whatever their size."""
    closing = yield from closing_of(batch)
    rows = yield Query(_RESULT, (first, last) * 3)
    return Piece(rows, closing)


def closing_of(batch: Batch) -> Script[tuple[str | None, str | None]]:
    """Return what a batch's queued requests read as, and why, at the moment; (None, None) while it is open."""
    row = one((yield Query("SELECT closed_as, error_message FROM batches WHERE id = ?", (batch.id,))))
    return (row[0], row[1]) if row else (None, None)


def result_from(row: Row, closed_as: str | None, why: str | None) -> Result:
    """Build a Result from the columns of `_RESULT`, in a batch that was closed so, if it was, and why."""
    number, custom_id, status, request_id, status_code, body, code, message, error_status = row
    if status == "completed":
        return Result(number, custom_id, status, request_id, status_code, body, None)
    failure = Failure(code, message, error_status) if code is not None else None
    if status == "queued" and closed_as is not None:
        # It never ran, or waited for a retry that will not come: the batch's end is its end.
        end_code, text = NEVER_RAN[closed_as]
        if closed_as == "failed" and why:
            text = f"{text}: {why}"
        if failure is not None:
            text = f"{text}; its last attempt failed with {failure.code}: {failure.message}"
        return Result(number, custom_id, closed_as, request_id, None, None, Failure(end_code, text))
    if failure is None and status != "failed":
        return Result(number, custom_id, status, None, None, None, None)
    return Result(number, custom_id, status, request_id, status_code, body, failure)
