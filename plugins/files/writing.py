"""Writes a file's bytes to the store as they come, so that memory does not grow with the file."""

import hashlib
from contextlib import suppress

import trio

from fibatchd.plugin_api import Store, StoreError, StoreUnavailable

from . import scripts
from .scripts import NewFile, Written

CHUNK_BYTES = 2**19
"""Bytes in one transaction: each waits for the disk, which takes as long as writing some hundred KiB does."""
GIVE_UP_S = 5.0


class GivenUp(StoreUnavailable):
    """The staged file was taken for abandoned, or its batch was deleted, before all of it was written."""


class FileWriter:
    """Writes one staged file. After `close` it is whole, and a script that gets the result publishes it."""

    def __init__(self, store: Store, new: NewFile) -> None:
        self._store = store
        self._new = new
        self._held = bytearray()
        self._hashed = hashlib.sha256()
        self._stored = 0

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._stored + len(self._held)

    async def begin(self) -> None:
        """Stage the file. Raises StoreUnavailable, as all of this does."""
        await self._store.write(scripts.stage, self._new)

    async def write(self, data: bytes) -> None:
        """Add bytes at the end. Raises GivenUp where nobody waits for them any more."""
        self._held += data
        while len(self._held) >= CHUNK_BYTES:
            chunk = bytes(memoryview(self._held)[:CHUNK_BYTES])
            del self._held[:CHUNK_BYTES]
            await self._append(chunk)

    async def close(self) -> Written:
        """Write what is left."""
        if self._held:
            chunk = bytes(self._held)
            self._held.clear()
            await self._append(chunk)
        return Written(self._new.id, self._stored, self._hashed.hexdigest())

    async def give_up(self) -> None:
        """Discard what was written. Where even that fails, the file is found later, as one that nobody writes."""
        with trio.CancelScope(shield=True, deadline=trio.current_time() + GIVE_UP_S), suppress(StoreError):
            await self._store.write(scripts.give_up, self._new.id)

    async def _append(self, chunk: bytes) -> None:
        if not await self._store.write(scripts.append, self._new.id, self._stored, chunk):
            raise GivenUp("the file was given up before all of it was written")
        self._hashed.update(chunk)
        self._stored += len(chunk)
