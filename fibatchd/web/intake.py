"""Stores a batch as its requests are checked: a small one in one transaction, a large one in pieces that nobody sees until
the last has come."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress

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
from fibatchd.web.ahead import Ahead

AT_ONCE = 1000
"""Requests stored in one transaction; more at a time would keep other writers waiting."""
ABANDON_S = 5.0

Outcome = Batch | Replay | OverLimit
Checked = AsyncGenerator[Sequence[NewRequest], None]


class _NotPublished(Exception):
    """Rolls back the transaction that staged a batch which was not to be."""

    def __init__(self, outcome: Replay | OverLimit) -> None:
        super().__init__()
        self.outcome = outcome


async def store_batch(
    context: Context, new: NewBatch, requests: Sequence[NewRequest], key: IdempotencyKey | None
) -> Outcome:
    """Store a batch whose requests have all been checked; otherwise as `store_checked`."""
    return await store_checked(context, lambda: new, len(requests), _in_turn(requests), key)


async def store_checked(
    context: Context, new: Callable[[], NewBatch], total: int, checked: Checked, key: IdempotencyKey | None
) -> Outcome:
    """Store a batch with its `total` requests and make it claimable, whole or not at all. `checked` gives the requests, a
    piece at a time; of a large batch each is stored while the next one is checked. `new` is called after the first.

    Returns the batch; or what its key was used for, or the limit it would pass, and then nothing is stored. Raises
    StoreUnavailable, and what `checked` raises; nothing is stored then either.
    """
    if total > AT_ONCE:
        return await _in_pieces(context, new, total, checked, key)
    async with aclosing(checked):
        requests = [request async for piece in checked for request in piece]
    try:
        return await context.store.write(_at_once, new(), requests, context.limits, context.policy, key)
    except _NotPublished as refused:
        return refused.outcome


async def _in_turn(requests: Sequence[NewRequest]) -> Checked:
    for start in range(0, len(requests), AT_ONCE):
        yield requests[start : start + AT_ONCE]


def _at_once(
    new: NewBatch,
    requests: Sequence[NewRequest],
    limits: admission.Limits,
    policy: Policy,
    key: IdempotencyKey | None,
) -> Script[Batch]:
    count = _Count()
    count.add(requests)
    yield from admission.insert(new, states.STAGING)
    reserved = yield from admission.reserve(new.id, count.models, count.total)
    yield from admission.append(reserved, 0, requests)
    outcome = yield from admission.publish(new, reserved, count.queued, count.failed, limits, policy, key)
    if not isinstance(outcome, Batch):
        raise _NotPublished(outcome)
    return outcome


async def _in_pieces(
    context: Context, new: Callable[[], NewBatch], total: int, checked: Checked, key: IdempotencyKey | None
) -> Outcome:
    staging = _Staging(context, new, total)
    outcome: Outcome | None = None
    try:
        async with Ahead(checked) as pieces:
            async for piece in pieces:
                await staging.append(piece)
        outcome = await staging.publish(key)
    finally:
        if not isinstance(outcome, Batch):
            await staging.abandon()
    return outcome


class _Staging:
    """A batch on its way into the store, where nobody sees it before it is published."""

    def __init__(self, context: Context, new: Callable[[], NewBatch], total: int) -> None:
        self._context = context
        self._make = new
        self._total = total
        self._count = _Count()
        self._new: NewBatch | None = None
        self._reserved: Reserved | None = None

    async def append(self, requests: Sequence[NewRequest]) -> None:
        """Store the next requests. Raises StoreUnavailable."""
        offset = self._count.total
        self._count.add(requests)
        reserved = await self._reserve()
        if not await self._context.store.write(admission.append, reserved, offset, requests):
            raise StoreUnavailable("the batch was given up before all of it was stored")

    async def _reserve(self) -> Reserved:
        """Return the batch's numbers, and the lanes of all models that it has named so far."""
        store = self._context.store
        if self._new is None:
            self._new = self._make()
            await store.write(admission.insert, self._new, states.STAGING)
        if self._reserved is None:
            self._reserved = await store.write(admission.reserve, self._new.id, self._count.models, self._total)
        elif more := [model for model in self._count.models if model not in self._reserved.lanes]:
            self._reserved = await store.write(admission.reserve_lanes, self._reserved, more)
        return self._reserved

    async def publish(self, key: IdempotencyKey | None) -> Outcome:
        """Make the batch visible and claimable, unless that is not to be. Raises StoreUnavailable."""
        assert self._new is not None
        assert self._reserved is not None
        queued, failed = self._count.queued, self._count.failed
        context = self._context
        return await context.store.write(
            admission.publish, self._new, self._reserved, queued, failed, context.limits, context.policy, key
        )

    async def abandon(self) -> None:
        """Have the staged rows purged. Where even that fails, the sweep for stale stagings finds them."""
        if self._new is None:
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + ABANDON_S), suppress(StoreError):
            await self._context.store.write(admission.abandon, self._new.id)


class _Count:
    """How many requests there are: to run, by model (0 where all have failed), and those that failed their own check."""

    def __init__(self) -> None:
        self.total = 0
        self.models: dict[str, int] = {}

    def add(self, requests: Sequence[NewRequest]) -> None:
        self.total += len(requests)
        for request in requests:
            self.models[request.model] = self.models.get(request.model, 0) + (request.failure is None)

    @property
    def queued(self) -> dict[str, int]:
        return {model: number for model, number in self.models.items() if number}

    @property
    def failed(self) -> int:
        return self.total - sum(self.models.values())
