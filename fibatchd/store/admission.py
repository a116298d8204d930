"""How batches come in: a batch is staged where no reader sees it, its requests are appended in chunks, and one short
transaction publishes it. So a create call that did not answer left a whole batch or none, and no transaction is long.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count

from fibatchd.domain import states
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import NewRequest
from fibatchd.errors import StoreUnavailable
from fibatchd.store import accounts, jobs, transitions
from fibatchd.store.ending import COLUMNS, Policy, finish_if_done
from fibatchd.store.interface import NOW, Insert, Notify, Query, Row, Script, one


@dataclass(frozen=True, slots=True)
class NewBatch:
    """What a batch is before it has requests; fields as in domain.Batch. `window_s` is its completion window."""

    id: str
    api: str
    source: str
    account_id: str
    key_id: str
    endpoint: str
    window_s: float
    metadata: str | None = None
    options: str | None = None
    input_file_id: str | None = None
    finalizer: str | None = None
    model: str | None = None
    label: str | None = None
    rerun_of: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What an account may have unfinished at once."""

    batches: int
    requests: int


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A create call's key, its route, and the SHA-256 of its body."""

    key: str
    route: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Replay:
    """What an idempotency key was used for before. `batch` is None where that batch has been deleted."""

    same: bool
    batch: Batch | None


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A limit on unfinished work that the new batch would pass: "batches" or "requests"."""

    what: str
    limit: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """Numbers for a batch's requests: `first` on, in submission order; and the lane of each of its models."""

    batch_id: str
    first: int
    lanes: Mapping[str, int]


def replay(account_id: str, key: IdempotencyKey) -> Script[Replay | None]:
    """Return what this key was used for, None where it is new or forgotten."""
    ((now,),) = yield NOW
    return (yield from _bound(account_id, key, now))


def _bound(account_id: str, key: IdempotencyKey, now: float) -> Script[Replay | None]:
    row = one(
        (
            yield Query(
                "SELECT route, fingerprint, batch_id FROM idempotency WHERE account_id = ? AND key = ? "
                "AND (forget_at IS NULL OR forget_at > ?)",
                (account_id, key.key, now),
            )
        )
    )
    if row is None:
        return None
    route, fingerprint, batch_id = row
    found = one((yield Query(f"SELECT {COLUMNS} FROM batches WHERE id = ? AND deleted_at IS NULL", (batch_id,))))
    same = route == key.route and bytes(fingerprint) == key.fingerprint
    return Replay(same, Batch(*found) if found else None)


def insert(new: NewBatch, status: str) -> Script[None]:
    """Store the batch's row, without requests. `status` is staging, or validating where its input is checked later."""
    ((now,),) = yield NOW
    columns = "id, api, source, account_id, key_id, endpoint, status, created_at, expires_at, metadata, options, "
    columns += "input_file_id, finalizer, model, label, rerun_of"
    yield Query(
        f"INSERT INTO batches ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new.id, new.api, new.source, new.account_id, new.key_id, new.endpoint, status, now, now + new.window_s,
            new.metadata, new.options, new.input_file_id, new.finalizer, new.model, new.label, new.rerun_of,
        ),
    )  # fmt: skip


_TAKE = "UPDATE sequences SET next = next + ? WHERE name = ? RETURNING next - ?"


def reserve(batch_id: str, models: Collection[str], total: int) -> Script[Reserved]:
    """Take numbers for up to `total` requests of a batch stored before, and a lane for each model. The batch's row keeps the
    numbers, so that a purge finds the requests of a batch that was given up half-way."""
    ((first,),) = yield Query(_TAKE, (total, "requests", total))
    ((_,),) = yield Query(
        "UPDATE batches SET first_number = ?, reserved = ? WHERE id = ? RETURNING id", (first, total, batch_id)
    )
    return (yield from reserve_lanes(Reserved(batch_id, first, {}), models))


def reserve_lanes(reserved: Reserved, models: Collection[str]) -> Script[Reserved]:
    """Take a lane for each of more models."""
    ((lane,),) = yield Query(_TAKE, (len(models), "lanes", len(models)))
    return replace(reserved, lanes={**reserved.lanes, **dict(zip(models, count(lane)))})


REMOVE_CHUNK = 2000
REMOVE_BYTES = 32 * 2**20
"""PostgreSQL removes a large value in pieces of 2 KB: gigabytes would take longer than one statement may."""

_UNOPENED = "prepared = 0 AND closed_as IS NULL AND ended_at IS NULL AND deleted_at IS NULL"
_REQUEST_COLUMNS = ("number", "lane", "status")
_FAILURE_COLUMNS = ("ended_at", "error_code", "error_message", "error_status")


def append(reserved: Reserved, offset: int, requests: Sequence[NewRequest]) -> Script[bool]:
    """Store requests at positions `offset` on. One that has failed its own check is stored as failed.

    False where the batch was given up, closed or deleted meanwhile; then nothing is stored.
    """
    # The lock holds off deleting, and so purging: no row comes after the purge that nobody would find again.
    if not (yield Query(f"SELECT 1 FROM batches WHERE id = ? AND {_UNOPENED} FOR SHARE", (reserved.batch_id,))):
        return False
    ((now,),) = yield NOW
    numbers = range(reserved.first + offset, reserved.first + offset + len(requests))
    queued: list[Row] = []
    failed: list[Row] = []
    for number, request in zip(numbers, requests, strict=True):
        lane = reserved.lanes[request.model]
        if failure := request.failure:
            failed.append((number, lane, "failed", now, *failure.columns()))
        else:
            queued.append((number, lane, "queued"))
    yield Insert("requests", _REQUEST_COLUMNS, queued)
    if failed:
        yield Insert("requests", _REQUEST_COLUMNS + _FAILURE_COLUMNS, failed)
    bodies = [(number, request.custom_id, request.body) for number, request in zip(numbers, requests, strict=True)]
    yield Insert("request_bodies", ("number", "custom_id", "body"), bodies)
    return True


def unfinished(account_id: str, *, besides: str) -> Script[tuple[int, int]]:
    """Count an account's unfinished batches and their unfinished requests, without the batch `besides`. Holds the
    account against other creates until the transaction ends."""
    yield from accounts.hold(account_id)
    ((batches, requests),) = yield Query(
        "SELECT COUNT(*), CAST(COALESCE(SUM(queued + running), 0) AS BIGINT) FROM batches WHERE account_id = ? "
        "AND ended_at IS NULL AND deleted_at IS NULL AND status <> 'staging' AND id <> ?",
        (account_id, besides),
    )
    return batches, int(requests)


def over_limit(account_id: str, batch_id: str, requests: int, limits: Limits) -> Script[OverLimit | None]:
    """Return the limit that this batch with so many requests to run would pass, if any."""
    batches, others = yield from unfinished(account_id, besides=batch_id)
    if batches + 1 > limits.batches:
        return OverLimit("batches", limits.batches)
    if others + requests > limits.requests:
        return OverLimit("requests", limits.requests)
    return None


def is_unopened(batch_id: str, *, stay: bool = False) -> Script[bool]:
    """Whether a batch still waits for its requests: it was neither opened, nor given up, closed or deleted. With `stay`
    that remains so until the transaction, which writes, has ended."""
    lock = " FOR UPDATE" if stay else ""
    return bool((yield Query(f"SELECT 1 FROM batches WHERE id = ? AND {_UNOPENED}{lock}", (batch_id,))))


def retract(batch_id: str) -> Script[bool]:
    """Remove up to a chunk of what was appended to a batch that has not been opened; call until it returns False.

    Before its numbers are reserved anew, so that the rows of the first attempt are not lost sight of; and after the end
    of a batch that never ran.
    """
    rows = yield Query(
        "SELECT first_number, reserved FROM batches WHERE id = ? AND prepared = 0 FOR UPDATE", (batch_id,)
    )
    if not rows or rows[0][0] is None:
        return False
    ((first, reserved),) = rows
    return (yield from remove_requests(first, reserved))


_REMOVABLE = """
SELECT q.number, COALESCE(LENGTH(b.body), 0) + COALESCE(LENGTH(r.body), 0) FROM requests q
LEFT JOIN request_bodies b ON b.number = q.number LEFT JOIN results r ON r.number = q.number
WHERE q.number >= ? AND q.number < ? ORDER BY q.number LIMIT ?
"""


def remove_requests(first: int, count: int) -> Script[bool]:
    """Remove up to a chunk of the requests numbered `first` on; False where none of the `count` is left."""
    rows = yield Query(_REMOVABLE, (first, first + count, REMOVE_CHUNK))
    sizes = accumulate(size for _, size in rows)
    # The first one always; then as many as are not too large together.
    numbers = [number for (number, size), total in zip(rows, sizes, strict=True) if total - size < REMOVE_BYTES]
    for table in ("requests", "request_bodies", "results"):
        yield Query(f"DELETE FROM {table} WHERE number = ANY(?)", (numbers,))
    return bool(rows)


def open_batch(
    reserved: Reserved,
    queued: Mapping[str, int],
    failed: int,
    total: int,
    *,
    status: str = states.VALIDATING,
    model: str | None = None,
) -> Script[bool]:
    """Make a batch's stored requests claimable: counters, lanes, and word to the pools. `queued` is by model.

    `status` is in_progress for a batch whose input was checked while readers saw it validating; `model` is the one that
    all its requests name, where its form knows but one. False where the batch was given up, closed or deleted meanwhile;
    then nothing is done.
    """
    ((now,),) = yield NOW
    began = now if status == states.IN_PROGRESS else None
    rows = yield Query(
        "UPDATE batches SET status = ?, in_progress_at = ?, model = COALESCE(?, model), prepared = 1, total = ?, "
        f"queued = ?, failed = ? WHERE id = ? AND {_UNOPENED} RETURNING account_id",
        (status, began, model, total, sum(queued.values()), failed, reserved.batch_id),
    )
    if not rows:
        return False
    ((account_id,),) = rows
    yield Insert(
        "lanes",
        ("id", "batch_id", "account_id", "model", "queued"),
        [(lane, reserved.batch_id, account_id, model, queued.get(model, 0)) for model, lane in reserved.lanes.items()],
    )
    for model in queued:
        yield Notify("work", model)
    if status == states.IN_PROGRESS:
        yield transitions.begun(reserved.batch_id, account_id)
    return True


def publish(
    new: NewBatch,
    reserved: Reserved,
    queued: Mapping[str, int],
    failed: int,
    limits: Limits,
    policy: Policy,
    key: IdempotencyKey | None,
) -> Script[Batch | Replay | OverLimit]:
    """Make a staged batch visible and claimable, unless its key was used meanwhile or a limit would be passed; then the
    staged rows stay for `abandon`. Raises StoreUnavailable where the batch was taken for abandoned before."""
    limit = yield from over_limit(new.account_id, new.id, sum(queued.values()), limits)
    if key is not None:
        # First of all: a call that repeats one which has just succeeded is answered with its batch, also at the limit.
        earlier = yield from claim_key(new.account_id, key, new.id, write=limit is None)
        if earlier is not None:
            return earlier
    if limit is not None:
        return limit
    if not (yield from open_batch(reserved, queued, failed, sum(queued.values()) + failed)):
        raise StoreUnavailable("the batch was given up before all of it was stored")
    ((now,),) = yield NOW
    yield from finish_if_done([new.id], policy, now)
    ((*row,),) = yield Query(f"SELECT {COLUMNS} FROM batches WHERE id = ?", (new.id,))
    return Batch(*row)


def claim_key(account_id: str, key: IdempotencyKey, batch_id: str, *, write: bool) -> Script[Replay | None]:
    """Bind an idempotency key to a batch; return what it was bound to before, if it was."""
    ((now,),) = yield NOW
    if write:
        rows = yield Query(
            "INSERT INTO idempotency (account_id, key, route, fingerprint, batch_id) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (account_id, key) DO UPDATE SET route = excluded.route, fingerprint = excluded.fingerprint, "
            "batch_id = excluded.batch_id, forget_at = NULL WHERE idempotency.forget_at <= ? RETURNING key",
            (account_id, key.key, key.route, key.fingerprint, batch_id, now),
        )
        if rows:
            return None
    return (yield from _bound(account_id, key, now))


def abandon(batch_id: str) -> Script[None]:
    """Leave a staged batch to be purged, its call having failed. One that was published after all stays as it is."""
    ((now,),) = yield NOW
    rows = yield Query(
        "UPDATE batches SET deleted_at = ? WHERE id = ? AND status = 'staging' AND deleted_at IS NULL RETURNING id",
        (now, batch_id),
    )
    if rows:
        yield from jobs.enqueue("purge", batch_id, now)
