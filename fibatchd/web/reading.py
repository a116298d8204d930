"""Reads a batch's results a bounded piece at a time, so that memory does not grow with the batch.

What is made of a piece is made where it is read: with SQLite in a worker thread, which keeps the loop free.
"""

from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias, TypeVar

from fibatchd.domain.batches import Batch
from fibatchd.errors import ApiError
from fibatchd.store import results
from fibatchd.store.interface import Script, Store
from fibatchd.store.results import Piece

# What is written of a piece stays below the size from which the allocator maps blocks anew each time.
PIECE_ROWS = 1000
PIECE_BYTES = 7 * 2**17

T = TypeVar("T")
Write: TypeAlias = Callable[[Piece], T]
"""Makes something of results, of one at least. It may be called again for the same ones, and in any thread."""


async def read_piece(store: Store, batch: Batch, first: int, last: int, write: Write[T]) -> tuple[T, int]:
    """Return what `write` makes of the results from number `first` on, up to `last` or to the bounds above, at least one;
    and the number behind them.

    Raises ApiError 404 where the batch was deleted meanwhile, StoreUnavailable.
    """
    return await store.read(_piece, batch, first, last, write)


async def read_pieces(store: Store, batch: Batch, first: int, last: int, write: Write[T]) -> AsyncGenerator[T, None]:
    """Give what `write` makes of the results numbered `first` to `last`, both included, in order. Errors as above."""
    while first <= last:
        written, first = await read_piece(store, batch, first, last, write)
        yield written


async def read_between(store: Store, batch: Batch, first: int, last: int, write: Write[T]) -> T:
    """Return what `write` makes of the results numbered `first` to `last`, known to be within bounds. Errors as above."""
    return await store.read(_between, batch, first, last, write)


def _piece(batch: Batch, first: int, last: int, write: Write[T]) -> Script[tuple[T, int]]:
    found = yield from results.piece(batch, first, last, max_rows=PIECE_ROWS, max_bytes=PIECE_BYTES)
    _require(found, first)
    return write(found), found.last + 1


def _between(batch: Batch, first: int, last: int, write: Write[T]) -> Script[T]:
    found = yield from results.between(batch, first, last)
    _require(found, first)
    return write(found)


def _require(found: Piece, first: int) -> None:
    if not found or found.first != first:
        raise deleted()


def deleted() -> ApiError:
    """Return what is answered where a batch was deleted while it was read."""
    return ApiError(404, "The batch has been deleted", code="not_found")
