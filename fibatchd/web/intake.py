"""Stores a batch whose requests are all checked: a small one in one transaction, a large one in pieces that nobody sees
until the last has come."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import trio

from fibatchd.context import Context
from fibatchd.domain import states
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import NewRequest
from fibatchd.errors import StoreError, StoreUnavailable
from fibatchd.store import admission
from fibatchd.store.admission import IdempotencyKey, NewBatch, OverLimit, Replay, Reserved
from fibatchd.store.ending import Policy
from fibatchd.store.interface import Script

AT_ONCE = 1000
"""Requests stored in one transaction; more at a time would keep other writers waiting."""
ABANDON_S = 5.0

Outcome = Batch | Replay | OverLimit


class _NotPublished(Exception):
    """Rolls back the transaction that staged a batch which was not to be."""

    def __init__(self, outcome: Replay | OverLimit) -> None:
        super().__init__()
        self.outcome = outcome


async def store_batch(
    context: Context, new: NewBatch, requests: Sequence[NewRequest], key: IdempotencyKey | None
) -> Outcome:
    """Store a batch with its requests and make it claimable, whole or not at all.

    Returns the batch; or what its key was used for, or the limit it would pass, and then nothing is stored.
    Raises StoreUnavailable.
    """
    if len(requests) > AT_ONCE:
        return await _in_pieces(context, new, requests, key)
    try:
        return await context.store.write(_at_once, new, requests, context.limits, context.policy, key)
    except _NotPublished as refused:
        return refused.outcome


def _at_once(
    new: NewBatch,
    requests: Sequence[NewRequest],
    limits: admission.Limits,
    policy: Policy,
    key: IdempotencyKey | None,
) -> Script[Batch]:
    yield from admission.insert(new, states.STAGING)
    reserved = yield from admission.reserve(new.id, _models(requests), len(requests))
    yield from admission.append(reserved, 0, requests)
    queued, failed = _counts(requests)
    outcome = yield from admission.publish(new, reserved, queued, failed, limits, policy, key)
    if not isinstance(outcome, Batch):
        raise _NotPublished(outcome)
    return outcome


async def _in_pieces(
    context: Context, new: NewBatch, requests: Sequence[NewRequest], key: IdempotencyKey | None
) -> Outcome:
    store = context.store
    outcome: Outcome | None = None
    try:
        await store.write(admission.insert, new, states.STAGING)
        reserved: Reserved = await store.write(admission.reserve, new.id, _models(requests), len(requests))
        for offset in range(0, len(requests), AT_ONCE):
            if not await store.write(admission.append, reserved, offset, requests[offset : offset + AT_ONCE]):
                raise StoreUnavailable("the batch was given up before all of it was stored")
        queued, failed = _counts(requests)
        outcome = await store.write(
            admission.publish, new, reserved, queued, failed, context.limits, context.policy, key
        )
    finally:
        if not isinstance(outcome, Batch):
            await _abandon(context, new.id)
    return outcome


async def _abandon(context: Context, batch_id: str) -> None:
    """Have the staged rows purged. Where even that fails, the sweep for stale stagings finds them."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + ABANDON_S), suppress(StoreError):
        await context.store.write(admission.abandon, batch_id)


def _models(requests: Sequence[NewRequest]) -> list[str]:
    return list(dict.fromkeys(request.model for request in requests))


def _counts(requests: Sequence[NewRequest]) -> tuple[dict[str, int], int]:
    """Return how many requests are to run, by model, and how many have failed their own check."""
    queued = Counter(request.model for request in requests if request.failure is None)
    return dict(queued), len(requests) - queued.total()
