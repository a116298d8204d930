"""Long lists are parsed, checked and stored in pieces of bounded time, so that others get their turn in between."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from fibatchd.worker import in_worker

T = TypeVar("T")

PIECE_ITEMS = 1000
PIECE_BYTES = 2**20
INLINE_BYTES = 64 * 1024
"""What is smaller is checked where it is: a hop to a thread and back costs more than it saves."""


def pieces(items: Sequence[msgspec.Raw]) -> Iterator[tuple[int, Sequence[msgspec.Raw]]]:
    """Cut a long list of JSON texts into pieces, each with the index of its first item."""
    start = size = 0
    for index, item in enumerate(items):
        size += len(item)
        if size >= PIECE_BYTES or index + 1 - start >= PIECE_ITEMS:
            yield start, items[start : index + 1]
            start, size = index + 1, 0
    if start < len(items):
        yield start, items[start:]


async def check_in_pieces(
    check: Callable[[int, Sequence[msgspec.Raw]], list[T]], items: Sequence[msgspec.Raw]
) -> AsyncGenerator[list[T], None]:
    """Check a long list of JSON texts off the loop, piece by piece; `check` takes the index of the first of a piece, and the
    piece. Raises what it raises."""
    for start, piece in pieces(items):
        yield await in_worker(check, start, piece)
