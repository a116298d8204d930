"""Reads a batch's results a bounded piece at a time, so that memory does not grow with the batch."""

from collections.abc import AsyncGenerator

from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Result
from fibatchd.errors import ApiError
from fibatchd.store import results
from fibatchd.store.interface import Store

PIECE_ROWS = 500
PIECE_BYTES = 2**20


async def read_piece(store: Store, batch: Batch, first: int, last: int) -> list[Result]:
    """Return the results from number `first` on, up to `last` or to the bounds above; at least one.

    Raises ApiError 404 where the batch was deleted meanwhile, StoreUnavailable.
    """
    found = await store.read(results.piece, batch, first, last, max_rows=PIECE_ROWS, max_bytes=PIECE_BYTES)
    if not found or found[0].number != first:
        raise ApiError(404, "The batch has been deleted", code="not_found")
    return found


async def read_pieces(store: Store, batch: Batch, first: int, last: int) -> AsyncGenerator[list[Result], None]:
    """Give the results numbered `first` to `last`, both included, in order. Errors as above."""
    while first <= last:
        found = await read_piece(store, batch, first, last)
        yield found
        first = found[-1].number + 1
