"""What the store holds, for the metrics page: asked for no more often than every few seconds, however many ask us."""

import math

import trio

from fibatchd.errors import StoreUnavailable
from fibatchd.store.interface import Store
from fibatchd.store.standing import Standing, standing

KEEP_S = 5.0
ANSWER_S = 2.0
"""A page is not kept waiting longer for the database."""


class KnownStanding:
    """The standing of late. `now` is None while the database does not answer: what it said before is not true any more."""

    def __init__(self, store: Store) -> None:
        self.now: Standing | None = None
        self._store = store
        self._asked_at = -math.inf
        self._asking = trio.Lock()

    async def refresh(self) -> None:
        """Ask the store, unless that was done just now."""
        async with self._asking:
            if trio.current_time() - self._asked_at < KEEP_S:
                return
            self._asked_at = trio.current_time()
            found = None
            with trio.move_on_after(ANSWER_S):
                try:
                    found = await self._store.read(standing)
                except StoreUnavailable:
                    found = None
            self.now = found
