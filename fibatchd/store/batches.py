"""Scripts on batches as their owners see them: get, list, cancel, delete. How they come in stands in `admission`, how
they end in `ending`."""

from fibatchd.domain import states
from fibatchd.domain.batches import Batch
from fibatchd.store import jobs
from fibatchd.store.ending import COLUMNS, Policy, close, finish_if_done
from fibatchd.store.interface import NOW, Notify, Query, Row, Script, one


def batch_from(row: Row) -> Batch:
    """Build a Batch from the columns of COLUMNS."""
    return Batch(*row)


def get(account_id: str, batch_id: str, api: str) -> Script[Batch | None]:
    """Return an account's batch of one API; None where it is another's, another API's, deleted or unknown."""
    row = one(
        (
            yield Query(
                f"SELECT {COLUMNS} FROM batches WHERE id = ? AND account_id = ? AND api = ? "
                "AND deleted_at IS NULL AND status <> 'staging'",
                (batch_id, account_id, api),
            )
        )
    )
    return batch_from(row) if row else None


def page(
    account_id: str, api: str, *, after: str | None = None, before: str | None = None, limit: int
) -> Script[tuple[list[Batch], bool]]:
    """Return up to `limit` of an account's batches, newest first, and whether more follow in the direction asked for.

    `after` gives those older than that id, `before` the nearest ones newer than it. A cursor is compared, not looked up.
    """
    order, bound, cursor = ("ASC", "AND id > ?", before) if before is not None else ("DESC", "AND id < ?", after)
    rows = yield Query(
        f"SELECT {COLUMNS} FROM batches WHERE account_id = ? AND api = ? AND deleted_at IS NULL AND status <> 'staging' "
        f"{bound if cursor is not None else ''} ORDER BY id {order} LIMIT ?",
        (account_id, api, *([cursor] if cursor is not None else []), limit + 1),
    )
    found = [batch_from(row) for row in rows[:limit]]
    if before is not None:
        found.reverse()
    return found, len(rows) > limit


def lock(batch_id: str) -> Script[Batch | None]:
    """Return a batch, held against every other change until the transaction ends; None where it is gone."""
    row = one((yield Query(f"SELECT {COLUMNS} FROM batches WHERE id = ? FOR UPDATE", (batch_id,))))
    return batch_from(row) if row else None


def cancel(account_id: str, batch_id: str, api: str, policy: Policy) -> Script[Batch | None]:
    """Cancel a batch: what has not started never will. One that is over, finalizing or cancelled already stays as it is.

    Returns the batch as it is then; None where the account has none of that id.
    """
    batch = yield from get(account_id, batch_id, api)
    if batch is None:
        return None
    batch = yield from lock(batch_id)
    if batch is None or batch.deleted_at is not None:
        return None
    if batch.status not in states.CLAIMABLE:
        return batch
    ((now,),) = yield NOW
    yield from close(batch, "cancelled", now)
    yield Query("UPDATE batches SET status = ?, cancelling_at = ? WHERE id = ?", (states.CANCELLING, now, batch_id))
    yield from finish_if_done([batch_id], policy, now)
    return (yield from get(account_id, batch_id, api))


def delete(account_id: str, batch_id: str, api: str, policy: Policy) -> Script[bool | None]:
    """Delete a batch with its requests and results: at once for readers, in chunks behind.

    True when deleted, False while one of its requests is running, None where the account has none of that id.
    """
    batch = yield from get(account_id, batch_id, api)
    if batch is None:
        return None
    batch = yield from lock(batch_id)
    if batch is None or batch.deleted_at is not None:
        return None
    if batch.running:
        return False
    ((now,),) = yield NOW
    yield from discard(batch, policy, now)
    return True


def discard(batch: Batch, policy: Policy, now: float) -> Script[None]:
    """Make a locked batch, of which nothing runs, unreadable, and leave its rows to a purge job."""
    if batch.closed_as is None:
        yield from close(batch, "cancelled", now)
    yield Query("UPDATE batches SET deleted_at = ? WHERE id = ?", (now, batch.id))
    yield Query(
        "UPDATE idempotency SET forget_at = COALESCE(forget_at, ?) WHERE batch_id = ?",
        (now + policy.idempotency_retention_s, batch.id),
    )
    for hook in policy.on_delete:
        yield from hook(batch)
    yield from jobs.enqueue("purge", batch.id, now)
    yield Notify("batches", batch.id)
