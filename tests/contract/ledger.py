"""What must be true of the whole store between any two transactions: the counters say what the rows say.

A batch's counters, its lanes' and its owner's books are kept beside the rows and never counted anew; `audit` counts
anew. It is a script like any other, so it holds for every driver.
"""

from collections import Counter
from typing import Any

from fibatchd.domain import states
from fibatchd.domain.batches import Batch
from fibatchd.store.ending import COLUMNS
from fibatchd.store.interface import Query, Script

COUNTERS = ("queued", "running", "completed", "failed", "cancelled", "expired")


def audit(max_attempts: int) -> Script[list[str]]:
    """Return every contradiction found."""
    problems: list[str] = []
    rows = yield Query(f"SELECT {COLUMNS} FROM batches ORDER BY id")
    all_batches = [Batch(*row) for row in rows]
    for batch in all_batches:
        problems += [f"{batch.id}: {text}" for text in (yield from _audit_batch(batch, max_attempts))]
    live = [b for b in all_batches if b.status != states.STAGING]
    problems += yield from _audit_books(live)
    leased = yield Query(
        "SELECT r.number FROM requests r LEFT JOIN daemons d ON d.id = r.lease WHERE r.lease IS NOT NULL AND d.id IS NULL"
    )
    problems += [f"request {number} is held by a daemon that is gone" for (number,) in leased]
    return problems


def _audit_batch(batch: Batch, max_attempts: int) -> Script[list[str]]:
    if not batch.prepared:
        lanes = yield Query("SELECT 1 FROM lanes WHERE batch_id = ?", (batch.id,))
        return ["has lanes before it is prepared"] if lanes else []
    problems: list[str] = []
    assert batch.first_number is not None
    rows = yield Query(
        "SELECT r.number, r.lane, r.status, r.attempts, r.lease, s.number FROM requests r "
        "LEFT JOIN results s ON s.number = r.number WHERE r.number >= ? AND r.number < ?",
        (batch.first_number, batch.first_number + batch.total),
    )
    if batch.deleted_at is not None and len(rows) < batch.total:
        return []  # being purged
    counted: Counter[str] = Counter()
    lanes_expected: Counter[int] = Counter()
    claimable = batch.closed_as is None and batch.deleted_at is None
    for number, lane, status, attempts, lease, result in rows:
        counted[(batch.closed_as or "queued") if status == "queued" else status] += 1
        lanes_expected[lane] += status == "queued" and claimable
        if (status == "running") != (lease is not None):
            problems.append(f"request {number} is {status} with lease {lease}")
        if (status == "completed") != (result is not None):
            problems.append(f"request {number} is {status}, result stored: {result is not None}")
        if attempts > max_attempts:
            problems.append(f"request {number} was tried {attempts} times")
    kept = {name: getattr(batch, name) for name in COUNTERS}
    if kept != {name: counted[name] for name in COUNTERS}:
        problems.append(f"counters {kept}, rows {dict(counted)}")
    if sum(kept.values()) != batch.total or len(rows) != batch.total:
        problems.append(f"total {batch.total}, rows {len(rows)}, counters {kept}")
    problems += yield from _audit_lanes(batch, lanes_expected)
    problems += yield from _audit_status(batch)
    return problems


def _audit_lanes(batch: Batch, expected: Counter[int]) -> Script[list[str]]:
    rows = yield Query("SELECT id, queued FROM lanes WHERE batch_id = ?", (batch.id,))
    return [f"lane {lane} says {queued}, rows {expected[lane]}" for lane, queued in rows if queued != expected[lane]]


def _audit_status(batch: Batch) -> Script[list[str]]:
    if batch.deleted_at is not None:
        return []
    over = batch.queued == batch.running == 0
    if batch.is_final != (batch.ended_at is not None):
        return [f"{batch.status}, ended at {batch.ended_at}"]
    if batch.is_final:
        stamp = getattr(batch, f"{batch.status}_at")
        return [] if over and stamp == batch.ended_at else [f"{batch.status}, not over or without its time"]
    if not over:
        return [] if batch.status != states.FINALIZING else ["finalizing too early"]
    jobs = yield Query("SELECT 1 FROM jobs WHERE subject = ? AND kind = ?", (batch.id, batch.finalizer))
    waiting = batch.status in (states.FINALIZING, states.CANCELLING) and len(jobs) == 1
    return [] if waiting else [f"nothing is left of it, and it is {batch.status} with {len(jobs)} finalizers"]


def _audit_books(batches: list[Batch]) -> Script[list[str]]:
    """Compare batches with books, which know accounts only; purged batches make the books larger, never smaller."""
    rows = yield Query(
        "SELECT account_id, CAST(SUM(cost) AS BIGINT), CAST(SUM(cost_unknown) AS BIGINT) FROM spending "
        "WHERE way = 'batch' GROUP BY account_id"
    )
    books = {account: (int(cost), int(unknown)) for account, cost, unknown in rows}
    sums: dict[str, tuple[int, int]] = {}
    for batch in batches:
        cost, unknown = sums.get(batch.account_id, (0, 0))
        sums[batch.account_id] = cost + batch.cost, unknown + batch.cost_unknown
    return [
        f"account {account}: batches cost {total}, books {books.get(account, (0, 0))}"
        for account, total in sums.items()
        if any(spent < known for spent, known in zip(books.get(account, (0, 0)), total, strict=True))
    ]


async def balanced(store: Any, max_attempts: int = 3, about: str = "") -> None:
    """Fail with every contradiction in the store."""
    problems = await store.read(audit, max_attempts)
    assert not problems, "\n".join([about, *problems])


def _count(tables: tuple[str, ...]) -> Script[list[int]]:
    found: list[int] = []
    for table in tables:
        ((rows,),) = yield Query(f"SELECT COUNT(*) FROM {table}")
        found.append(rows)
    return found


async def rows_of(store: Any, *tables: str) -> list[int]:
    """Count the rows of some tables."""
    return await store.read(_count, tables)
