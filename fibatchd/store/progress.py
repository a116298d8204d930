"""Scripts on how a batch went: errors by code, and what ended when, and how long it took. They read the batch's own range
of the narrow table, and what they return is bounded whatever the batch's size."""

from collections.abc import Sequence
from dataclasses import dataclass

from fibatchd.domain.batches import Batch
from fibatchd.store.interface import Query, Script
from fibatchd.store.results import NEVER_RAN, Range, closing_of

_ERRORS = """
SELECT status, error_code, COUNT(*) FROM requests
WHERE number >= ? AND number <= ? AND (status = 'failed' OR status = 'queued') GROUP BY status, error_code
"""
# The nearest rank: the least latency that so many percent do not exceed. A clock that was set leaves times out of order.
_SLICES = """
SELECT slice, CAST(SUM(succeeded) AS BIGINT), COUNT(*),
    MIN(CASE WHEN place * 100 >= many * 50 THEN took END),
    MIN(CASE WHEN place * 100 >= many * 95 THEN took END), MAX(took)
FROM (
    SELECT slice, succeeded, took, COUNT(*) OVER (PARTITION BY slice) AS many,
        ROW_NUMBER() OVER (PARTITION BY slice ORDER BY took) AS place
    FROM (
        SELECT CASE WHEN slice < 0 THEN 0 WHEN slice > ? THEN ? ELSE slice END AS slice, succeeded,
            CASE WHEN took < 0 THEN 0 ELSE took END AS took
        FROM (
            SELECT CAST(FLOOR((ended_at - ?) / ?) AS BIGINT) AS slice, ended_at - started_at AS took,
                CASE WHEN status = 'completed' THEN 1 ELSE 0 END AS succeeded
            FROM requests WHERE number >= ? AND number <= ? AND ended_at IS NOT NULL AND started_at IS NOT NULL
        ) AS timed
    ) AS ended
) AS ranked GROUP BY slice
"""
_LATELY = "SELECT COUNT(*) FROM requests WHERE number >= ? AND number <= ? AND ended_at > ?"


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Requests that did not succeed, or have yet to: their outcome, the code of what was last wrong, how many."""

    outcome: str
    code: str
    count: int


@dataclass(frozen=True, slots=True)
class Slice:
    """What ended in one slice of time, and the latency of the last attempts in seconds."""

    index: int
    succeeded: int
    ended: int
    p50: float
    p95: float
    longest: float


def errors(batch: Batch) -> Script[list[ErrorCount]]:
    """Count a batch's requests that did not succeed by code, and those that wait for another attempt; most first."""
    closed_as, _ = yield from closing_of(batch)
    whole = Range.of(batch)
    rows = yield Query(_ERRORS, (whole.first, whole.last))
    counts: dict[tuple[str, str], int] = {}
    for status, code, count in rows:
        outcome = status
        if status == "queued" and closed_as is not None:
            outcome, code = closed_as, NEVER_RAN[closed_as][0]
        if code is not None:
            counts[outcome, code] = counts.get((outcome, code), 0) + count
    found = [ErrorCount(outcome, code, count) for (outcome, code), count in counts.items()]
    return sorted(found, key=lambda error: (-error.count, error.outcome, error.code))


def slices(batch: Batch, began: float, width: float, count: int) -> Script[Sequence[Slice]]:
    """Return what ended in each of `count` slices of `width` seconds, counted from `began`; those in which nothing did are
    left out. What ended before or after, by a clock that has been set since, is in the first or the last."""
    whole = Range.of(batch)
    rows = yield Query(_SLICES, (count - 1, count - 1, began, width, whole.first, whole.last))
    return [Slice(*row) for row in rows]


def ended_since(batch: Batch, since: float) -> Script[int]:
    """Count a batch's requests that ended later than `since`."""
    whole = Range.of(batch)
    ((count,),) = yield Query(_LATELY, (whole.first, whole.last, since))
    return int(count)
