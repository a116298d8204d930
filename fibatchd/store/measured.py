"""A store whose calls are timed, as their callers see it: waiting for a connection, a group commit and a retry included."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import ParamSpec, TypeVar

from fibatchd.errors import StoreUnavailable
from fibatchd.metrics import Labels, distributions
from fibatchd.store.interface import Script, Store

T = TypeVar("T")
P = ParamSpec("P")

READ: Labels = ("read",)
WRITE: Labels = ("write",)
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class MeasuredStore:
    """Passes everything on to the store that it is made with."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.shared = store.shared
        self.dialect = store.dialect
        self.listen: Callable[[str], AbstractAsyncContextManager[AsyncIterator[str]]] = store.listen
        self.has_room = store.has_room
        self.was_stored = store.was_stored
        self.aclose = store.aclose
        self.seconds = distributions(BOUNDS)
        """By "read" or "write"."""
        self.unavailable: Counter[Labels] = Counter({READ: 0, WRITE: 0})
        """Calls that the database could not answer, in the same way."""

    async def write(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script as one transaction, and note how long that took."""
        began = time.perf_counter()
        try:
            return await self._store.write(script, *args, **kwargs)
        except StoreUnavailable:
            self.unavailable[WRITE] += 1
            raise
        finally:
            self.seconds[WRITE].observe(time.perf_counter() - began)

    async def read(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script that reads, and note how long that took."""
        began = time.perf_counter()
        try:
            return await self._store.read(script, *args, **kwargs)
        except StoreUnavailable:
            self.unavailable[READ] += 1
            raise
        finally:
            self.seconds[READ].observe(time.perf_counter() - began)
