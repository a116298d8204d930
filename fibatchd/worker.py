"""Parsing, checking and translating off the event loop: in one worker thread at a time, whoever asks for it."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

T = TypeVar("T")
Args = TypeVarTuple("Args")

# Two threads that parse at once would only pass the interpreter's lock between them, and keep the loop from it.
_limiter = trio.CapacityLimiter(1)


async def in_worker(work: Callable[[*Args], T], *args: *Args) -> T:
    """Run `work` in the worker thread; those who wait take turns."""
    return await trio.to_thread.run_sync(work, *args, limiter=_limiter)
