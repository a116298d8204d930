"""Scripts of the housekeeping: windows that close, results whose time is over, rows left to purge, keys to forget."""

from dataclasses import dataclass

from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Failure
from fibatchd.store.admission import remove_requests
from fibatchd.store.batches import discard
from fibatchd.store.ending import COLUMNS, Policy, finish_if_done
from fibatchd.store.interface import NOW, Notify, Query, Script, one


@dataclass(frozen=True, slots=True)
class Due:
    """Batches that something is to be done about, up to so many of each kind, by id."""

    to_expire: list[str]
    without_owner: list[str]
    to_delete: list[str]


def due(limit: int) -> Script[Due]:
    """Look for all of it in one go: a daemon that does nothing else does this every second."""
    to_expire = yield from due_to_expire(limit)
    without_owner = yield from owners_gone(limit)
    to_delete = yield from due_to_delete(limit)
    return Due(to_expire, without_owner, to_delete)


def due_to_expire(limit: int) -> Script[list[str]]:
    """Return batches whose completion window is over and which are not closed yet."""
    ((now,),) = yield NOW
    rows = yield Query(
        "SELECT id FROM batches WHERE expires_at <= ? AND closed_as IS NULL AND ended_at IS NULL AND deleted_at IS NULL "
        "AND status NOT IN ('staging', 'finalizing') ORDER BY expires_at LIMIT ?",
        (now, limit),
    )
    return [batch_id for (batch_id,) in rows]


def due_to_delete(limit: int) -> Script[list[str]]:
    """Return finished batches whose retention is over, and all those of deleted accounts."""
    ((now,),) = yield NOW
    rows = yield Query(
        "SELECT id FROM batches WHERE delete_at <= ? AND delete_at IS NOT NULL AND deleted_at IS NULL LIMIT ?",
        (now, limit),
    )
    orphans = yield Query(
        "SELECT b.id FROM accounts a JOIN batches b ON b.account_id = a.id "
        "WHERE a.status = 'deleted' AND b.deleted_at IS NULL AND b.ended_at IS NOT NULL LIMIT ?",
        (limit,),
    )
    return sorted({batch_id for (batch_id,) in rows + orphans})


def owners_gone(limit: int) -> Script[list[str]]:
    """Return open batches whose key was revoked or has expired, or whose account is suspended or deleted."""
    ((now,),) = yield NOW
    rows = yield Query(
        "SELECT b.id FROM batches b JOIN accounts a ON a.id = b.account_id JOIN keys k ON k.id = b.key_id "
        "WHERE b.ended_at IS NULL AND b.deleted_at IS NULL AND b.closed_as IS NULL "
        "AND b.status NOT IN ('staging', 'finalizing') "
        "AND (a.status <> 'active' OR k.revoked_at <= ? OR k.expires_at <= ?) LIMIT ?",
        (now, now, limit),
    )
    return [batch_id for (batch_id,) in rows]


def delete_ended(batch_id: str, policy: Policy) -> Script[None]:
    """Delete a finished batch whose time is over, unless somebody did."""
    rows = yield Query(
        f"SELECT {COLUMNS} FROM batches WHERE id = ? AND deleted_at IS NULL AND ended_at IS NOT NULL FOR UPDATE",
        (batch_id,),
    )
    ((now,),) = yield NOW
    for row in rows:
        yield from discard(Batch(*row), policy, now)


def stale_staging(older_than_s: float, *, all_of_them: bool = False) -> Script[list[str]]:
    """Return staged batches that no create call can still be working on."""
    ((now,),) = yield NOW
    rows = yield Query(
        "SELECT id FROM batches WHERE status = 'staging' AND ended_at IS NULL AND deleted_at IS NULL "
        "AND (created_at < ? OR ? = 1)",
        (now - older_than_s, int(all_of_them)),
    )
    return [batch_id for (batch_id,) in rows]


def purge(batch_id: str) -> Script[bool]:
    """Remove up to a chunk of a deleted batch's rows; call until it returns False, when the batch's own row is gone."""
    rows = yield Query(
        "SELECT first_number, reserved FROM batches WHERE id = ? AND deleted_at IS NOT NULL", (batch_id,)
    )
    if not rows:
        return False
    ((first, reserved),) = rows
    if first is not None and (yield from remove_requests(first, reserved)):
        return True
    yield Query("DELETE FROM lanes WHERE batch_id = ?", (batch_id,))
    yield Query("DELETE FROM batches WHERE id = ?", (batch_id,))
    return False


def forget_keys(limit: int) -> Script[int]:
    """Forget idempotency keys whose time is over; return how many."""
    ((now,),) = yield NOW
    rows = yield Query(
        "DELETE FROM idempotency WHERE (account_id, key) IN "
        "(SELECT account_id, key FROM idempotency WHERE forget_at <= ? LIMIT ?) RETURNING key",
        (now, limit),
    )
    return len(rows)


_LATE_REQUESTS = """
UPDATE requests SET due_at = ? WHERE number IN (
    SELECT number FROM requests WHERE status = 'queued' AND due_at > ? AND lane IN (SELECT id FROM lanes WHERE queued > 0)
    LIMIT ?)
RETURNING lane
"""
# From kind to kind by the index: there are few, and of each perhaps many jobs.
_LATE_JOBS = """
WITH RECURSIVE kinds (kind) AS (
    SELECT MIN(kind) FROM jobs
    UNION ALL SELECT (SELECT MIN(j.kind) FROM jobs j WHERE j.kind > kinds.kind) FROM kinds WHERE kinds.kind IS NOT NULL)
UPDATE jobs SET due_at = ? WHERE id IN (
    SELECT id FROM jobs WHERE kind IN (SELECT kind FROM kinds) AND due_at > ? AND lease IS NULL LIMIT ?)
RETURNING kind
"""


def bring_forward(longest_s: float, limit: int) -> Script[int]:
    """Make due at once what is due later than `longest_s` from now, which is as long as anything may be put off: when that
    was done the clock was ahead, and it has been set back since. Takes up to `limit` requests and as many jobs; returns
    how many there were: call until it returns 0."""
    ((now,),) = yield NOW
    lanes = yield Query(_LATE_REQUESTS, (now, now + longest_s, limit))
    kinds = yield Query(_LATE_JOBS, (now, now + longest_s, limit))
    models = yield Query("SELECT DISTINCT model FROM lanes WHERE id = ANY(?)", (sorted({lane for (lane,) in lanes}),))
    for (model,) in models:
        yield Notify("work", model)
    for (kind,) in set(kinds):
        yield Notify("jobs", kind)
    return len(lanes) + len(kinds)


def model_of(lane: int) -> Script[str | None]:
    """Return the model of a lane, None where there is no such lane."""
    row = one((yield Query("SELECT model FROM lanes WHERE id = ?", (lane,))))
    return row[0] if row else None


def fail_lane(lane: int, failure: Failure, limit: int, policy: Policy) -> Script[int]:
    """Fail up to `limit` queued requests of a lane that can never run, its model being gone; return how many."""
    rows = yield Query("SELECT batch_id FROM lanes WHERE id = ?", (lane,))
    if not rows:
        return 0
    ((batch_id,),) = rows
    open_ = yield Query("SELECT 1 FROM batches WHERE id = ? AND closed_as IS NULL FOR UPDATE", (batch_id,))
    if not open_:
        return 0
    ((now,),) = yield NOW
    gone = yield Query(
        "UPDATE requests SET status = 'failed', ended_at = ?, error_code = ?, error_message = ?, error_status = ? "
        "WHERE number IN (SELECT number FROM requests WHERE lane = ? AND status = 'queued' LIMIT ?) RETURNING number",
        (now, *failure.columns(), lane, limit),
    )
    yield Query("UPDATE lanes SET queued = queued - ? WHERE id = ?", (len(gone), lane))
    yield Query(
        "UPDATE batches SET queued = queued - ?, failed = failed + ? WHERE id = ?", (len(gone), len(gone), batch_id)
    )
    yield from finish_if_done([batch_id], policy, now)
    return len(gone)
