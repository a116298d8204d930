"""Long lists are parsed and checked in pieces of bounded time, so that those who wait for the worker get their turn."""

from collections.abc import Iterator, Sequence

import msgspec

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
