"""Durable background jobs: a kind, a subject (usually a batch), done once by whichever daemon takes it first.

A job is leased like a request: when its daemon dies it is free again. Its effect and its removal belong in one script
of the handler's, which ends with `yield from done(job)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fibatchd.ids import new_id
from fibatchd.store.fence import pass_fence
from fibatchd.store.interface import Notify, Query, Script, one


@dataclass(frozen=True, slots=True)
class Job:
    """One job in the hands of one daemon."""

    id: str
    kind: str
    subject: str
    attempts: int
    lease: int


def enqueue(kind: str, subject: str, due_at: float, *, unique: bool = False) -> Script[None]:
    """Add a job, to be taken from `due_at` on; with `unique` not beside another of the same kind and subject."""
    if unique and (yield Query("SELECT 1 FROM jobs WHERE subject = ? AND kind = ?", (subject, kind))):
        return
    yield Query(
        "INSERT INTO jobs (id, kind, subject, due_at) VALUES (?, ?, ?, ?)", (new_id("job_"), kind, subject, due_at)
    )
    yield Notify("jobs", kind)


def take(kind: str, daemon: int) -> Script[Job | None]:
    """Take the next job of a kind that is due, counting an attempt; None where there is none. Raises LeaseLost."""
    now = yield from pass_fence(daemon)
    row = one(
        (
            yield Query(
                "UPDATE jobs SET lease = ?, attempts = attempts + 1 WHERE id = (SELECT id FROM jobs WHERE kind = ? "
                "AND due_at <= ? AND lease IS NULL ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) "
                "RETURNING id, kind, subject, attempts",
                (daemon, kind, now),
            )
        )
    )
    return Job(row[0], row[1], row[2], row[3], daemon) if row else None


def give_back(kind: str, daemon: int, known: Sequence[str]) -> Script[int]:
    """Free jobs of a kind that a daemon holds besides the `known` ones (ids), their attempt not counted: it took them by
    a call whose answer was lost. Returns how many."""
    # Waits for such a call that the database may still be working on.
    yield Query("SELECT 1 FROM daemons WHERE id = ? FOR UPDATE", (daemon,))
    rows = yield Query(
        "UPDATE jobs SET lease = NULL, attempts = attempts - 1 WHERE kind = ? AND lease = ? AND NOT id = ANY(?) "
        "RETURNING id",
        (kind, daemon, list(known)),
    )
    if rows:
        yield Notify("jobs", kind)
    return len(rows)


def holds(job: Job) -> Script[bool]:
    """Whether the job is still this daemon's; locks it until the transaction ends."""
    rows = yield Query("SELECT 1 FROM jobs WHERE id = ? AND lease = ? FOR UPDATE", (job.id, job.lease))
    return bool(rows)


def done(job: Job) -> Script[None]:
    """Remove a job that is done."""
    yield Query("DELETE FROM jobs WHERE id = ? AND lease = ?", (job.id, job.lease))


def postpone(job: Job, due_at: float) -> Script[None]:
    """Give a job back, to be taken again from `due_at` on; one that was given back and taken again since stays as it is."""
    yield Query(
        "UPDATE jobs SET lease = NULL, due_at = ? WHERE id = ? AND lease = ? AND attempts = ?",
        (due_at, job.id, job.lease, job.attempts),
    )
