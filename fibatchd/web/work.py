"""Parsing and checking off the event loop: in one worker thread at a time, in pieces of bounded time."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, TypeVarTuple

import msgspec
import trio

T = TypeVar("T")
Args = TypeVarTuple("Args")

PIECE_ITEMS = 1000
PIECE_BYTES = 2**20
INLINE_BYTES = 64 * 1024
"""What is smaller is checked where it is: a hop to a thread and back costs more than it saves."""

# Two threads that parse at once would only pass the interpreter's lock between them, and keep the loop from it.
_limiter = trio.CapacityLimiter(1)


async def in_worker(work: Callable[[*Args], T], *args: *Args) -> T:
    """Run `work` in the worker thread; those who wait take turns."""
    return await trio.to_thread.run_sync(work, *args, limiter=_limiter)


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
