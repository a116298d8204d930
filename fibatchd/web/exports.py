"""`output.jsonl`: all results of a finished batch in one file, whose bytes are the same every time.

Nothing is stored for it: the lines are written anew for each download. Its ETag, a SHA-256, has to be known before the
first byte goes out, so the first download reads the batch twice; the digest is then remembered.
"""

import hashlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakValueDictionary

import trio

from fibatchd.domain.batches import Batch
from fibatchd.store.interface import Store
from fibatchd.store.results import Piece, Range
from fibatchd.web.ahead import Ahead
from fibatchd.web.reading import deleted, read_between, read_pieces
from fibatchd.web.render import output_lines

REMEMBERED = 128


@dataclass(frozen=True, slots=True)
class Digest:
    """An export without its bytes: SHA-256 in hex, size, and where its pieces start: (byte, number of the request);
    behind the last one stands its end."""

    sha256: str
    size: int
    starts: list[tuple[int, int]]


class Digests:
    """The digests of the exports last asked for."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Digest] = OrderedDict()
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()

    async def of(self, store: Store, batch: Batch) -> Digest:
        """Return a finished batch's digest. Those who ask for it at once have it computed once."""
        lock = self._locks.setdefault(batch.id, trio.Lock())
        async with lock:
            digest = self._known.get(batch.id)
            if digest is None:
                digest = self._known[batch.id] = await compute(store, batch)
            self._known.move_to_end(batch.id)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return digest


async def compute(store: Store, batch: Batch) -> Digest:
    """Write the export once, to nowhere. Raises ApiError 404 where the batch was deleted meanwhile, StoreUnavailable."""
    hashed = hashlib.sha256()
    whole = Range.of(batch)
    size = 0
    starts = [(size, whole.first)]
    async with Ahead(read_pieces(store, batch, whole.first, whole.last, _lines_until)) as pieces:
        async for lines, following in pieces:
            hashed.update(lines)
            size += len(lines)
            starts.append((size, following))
    return Digest(hashed.hexdigest(), size, starts)


def _lines_until(piece: Piece) -> tuple[bytes, int]:
    """Return the lines of a piece, and the number behind it."""
    return output_lines(piece), piece.last + 1


async def export(store: Store, batch: Batch, digest: Digest, first: int, last: int) -> AsyncGenerator[bytes, None]:
    """Give the bytes of the export from position `first` to `last`, both included; only the pieces they are in are read.

    Raises ApiError 404 where the batch was deleted meanwhile, StoreUnavailable.
    """
    at = bisect_right(digest.starts, first, key=lambda start: start[0]) - 1
    for (position, number), (end, following) in pairwise(digest.starts[at:]):
        if position > last:
            return
        lines = await read_between(store, batch, number, following - 1, output_lines)
        if len(lines) != end - position:
            raise deleted()
        yield lines[max(0, first - position) : last + 1 - position]
