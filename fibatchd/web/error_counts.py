"""A batch's errors by code, for pages that poll it: to count them goes through all of its requests, so that a large batch is
not counted anew for each who asks."""

from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

import trio

from fibatchd.domain.batches import Batch
from fibatchd.store import progress
from fibatchd.store.interface import Store
from fibatchd.store.progress import ErrorCount

REMEMBERED = 128
REST = 20
"""Counts of a batch that still runs serve for so many times as long as they took: at most a twentieth of the time is spent
on counting, however many ask, and those of a small batch are always new."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts, and until when they serve, by trio's clock; `last` for a batch that had ended, whose counts stay."""

    counts: list[ErrorCount]
    until: float
    last: bool


class ErrorCounts:
    """The counts of the batches last asked for."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Counted] = OrderedDict()
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()

    async def of(self, store: Store, batch: Batch) -> list[ErrorCount]:
        """Return a batch's counts. Those who ask for them at once have them counted once. Raises StoreUnavailable."""
        lock = self._locks.setdefault(batch.id, trio.Lock())
        async with lock:
            known, began = self._known.get(batch.id), trio.current_time()
            if known is None or not (known.last or (began < known.until and not batch.is_final)):
                counts = await store.read(progress.errors, batch)
                ended = trio.current_time()
                known = self._known[batch.id] = _Counted(counts, ended + REST * (ended - began), batch.is_final)
            self._known.move_to_end(batch.id)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return known.counts
