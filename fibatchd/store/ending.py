"""How a batch closes and ends: the only scripts that write a final status.

Closing stops what has not started; it is one update of the batch's row, since its queued requests read as what
`closed_as` says. Ending happens in the transaction in which the last request is over, so that no reader sees one
without the other, and the plugins' part (an event for the outbox) in that same transaction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from fibatchd.domain import states
from fibatchd.domain.batches import Batch
from fibatchd.store import jobs, transitions
from fibatchd.store.interface import NOW, Notify, Query, Script

BatchHook = Callable[[Batch], Script[None]]

COLUMNS = ", ".join(field.name for field in fields(Batch))


@dataclass(frozen=True, slots=True)
class Policy:
    """How long ended things are kept (seconds), and what plugins add to the transaction that ends or deletes a batch."""

    retention_s: float
    idempotency_retention_s: float
    on_end: tuple[BatchHook, ...] = ()
    on_delete: tuple[BatchHook, ...] = ()


def close(batch: Batch, closed_as: str, now: float) -> Script[None]:
    """Stop what has not started of a locked batch, as "cancelled", "expired" or "failed". The first closing stands."""
    if batch.closed_as is not None:
        return
    assert closed_as in ("cancelled", "expired", "failed"), closed_as  # each has a counter of its name
    yield Query(
        f"UPDATE batches SET closed_as = ?, {closed_as} = {closed_as} + queued, queued = 0 WHERE id = ?",
        (closed_as, batch.id),
    )
    yield Query("UPDATE lanes SET queued = 0 WHERE batch_id = ? AND queued > 0", (batch.id,))
    yield Notify("closed", batch.id)


def expire(batch_id: str, policy: Policy) -> Script[None]:
    """Close a batch whose completion window is over, by the store's clock."""
    ((now,),) = yield NOW
    rows = yield Query(
        f"SELECT {COLUMNS} FROM batches WHERE id = ? AND expires_at <= ? AND closed_as IS NULL AND ended_at IS NULL "
        "AND deleted_at IS NULL AND status <> 'finalizing' FOR UPDATE",
        (batch_id, now),
    )
    for row in rows:
        batch = Batch(*row)
        yield from close(batch, "expired", now)
        yield from finish_if_done([batch_id], policy, now)


def fail(batch_id: str, code: str, message: str, policy: Policy) -> Script[bool]:
    """Close a batch whose owner is no longer valid: what has not started fails with `batch_failed`. False where it was
    closed already."""
    ((now,),) = yield NOW
    rows = yield Query(
        f"SELECT {COLUMNS} FROM batches WHERE id = ? AND closed_as IS NULL AND ended_at IS NULL "
        "AND deleted_at IS NULL AND status <> 'finalizing' FOR UPDATE",
        (batch_id,),
    )
    for row in rows:
        yield from close(Batch(*row), "failed", now)
        yield Query("UPDATE batches SET error_code = ?, error_message = ? WHERE id = ?", (code, message, batch_id))
        yield from finish_if_done([batch_id], policy, now)
    return bool(rows)


def refuse(batch_id: str, errors: str, policy: Policy) -> Script[None]:
    """End a batch whose input was checked after it was created, and is invalid: nothing of it runs. `errors` is the JSON
    text that the batch object shows."""
    ((now,),) = yield NOW
    rows = yield Query(
        f"SELECT {COLUMNS} FROM batches WHERE id = ? AND prepared = 0 AND closed_as IS NULL AND ended_at IS NULL "
        "AND deleted_at IS NULL FOR UPDATE",
        (batch_id,),
    )
    for row in rows:
        yield from close(Batch(*row), "failed", now)
        yield Query("UPDATE batches SET errors = ? WHERE id = ?", (errors, batch_id))
        yield from finish_if_done([batch_id], policy, now)


def name_files(batch_id: str, output_file_id: str | None, error_file_id: str | None) -> Script[None]:
    """Note the result files of a batch, in the transaction that ends it."""
    yield Query(
        "UPDATE batches SET output_file_id = ?, error_file_id = ? WHERE id = ?",
        (output_file_id, error_file_id, batch_id),
    )


def finish_if_done(batch_ids: Sequence[str], policy: Policy, now: float) -> Script[None]:
    """End each of these batches, locked already, of which no request is queued or running any more.

    One that has files to write goes to `finalizing` (or stays `cancelling`), and a job ends it.
    """
    rows = yield Query(
        f"SELECT {COLUMNS} FROM batches WHERE id = ANY(?) AND queued = 0 AND running = 0 AND ended_at IS NULL "
        "AND (prepared = 1 OR closed_as IS NOT NULL) AND status NOT IN ('staging', 'finalizing') "
        "AND deleted_at IS NULL ORDER BY id FOR UPDATE",
        (list(batch_ids),),
    )
    for row in rows:
        batch = Batch(*row)
        if batch.finalizer and batch.total:
            if batch.status != states.CANCELLING:
                yield Query(
                    "UPDATE batches SET status = ?, finalizing_at = ? WHERE id = ?", (states.FINALIZING, now, batch.id)
                )
                yield transitions.finalizing(batch)
            yield from jobs.enqueue(batch.finalizer, batch.id, now, unique=True)
        else:
            yield from end(batch, policy, now)


def end(batch: Batch, policy: Policy, now: float) -> Script[None]:
    """Give a locked batch its final status. Final or deleted: nothing happens, so that a job may come twice or late."""
    if batch.is_final or batch.deleted_at is not None:
        return
    status = states.final_status(
        cancelled=batch.cancelling_at is not None,
        owner_invalid=batch.closed_as == "failed" or batch.errors is not None,
        expired=batch.expired > 0 or (batch.closed_as == "expired" and not batch.prepared),
    )
    assert status in states.TRANSITIONS[batch.status], (batch.status, status)
    rows = yield Query(
        f"UPDATE batches SET status = ?, {status}_at = ?, ended_at = ?, delete_at = ? WHERE id = ? RETURNING {COLUMNS}",
        (status, now, now, now + policy.retention_s, batch.id),
    )
    yield Query(
        "UPDATE idempotency SET forget_at = ? WHERE batch_id = ?", (now + policy.idempotency_retention_s, batch.id)
    )
    ended = Batch(*rows[0])
    for hook in policy.on_end:
        yield from hook(ended)
    yield transitions.ended(ended)
    yield Notify("batches", batch.id)
