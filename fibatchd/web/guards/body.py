"""Request bodies: back-pressure from the handler to the socket, and size limits that hold while a body arrives.

Quart's body grows without bound when its handler is slow, counts only the bytes not yet consumed, and asks for the
body (`100 Continue`) before a route could refuse it. `GuardedQuart` is QuartTrio without these three.
"""

import io
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import trio
from quart import Quart, Request
from quart_trio import QuartTrio
from quart_trio.wrappers.request import TrioBody, TrioRequest
from werkzeug.datastructures import ImmutableDict

from fibatchd import memory
from fibatchd.errors import ApiError


async def _nothing() -> None:
    pass


class BodyFlow:
    """The bytes of one request's body between the socket and its handler.

    The connection calls `arrived` and waits in `room`; the body calls `wanted` and `taken`.
    """

    def __init__(self, high_water: float = math.inf, on_wanted: Callable[[], Awaitable[None]] = _nothing) -> None:
        self._high_water = high_water
        self._on_wanted = on_wanted
        self._waiting = 0
        self._readers = trio.lowlevel.ParkingLot()
        self.total = 0

    @property
    def full(self) -> bool:
        return self._waiting > self._high_water

    def arrived(self, size: int) -> None:
        self.total += size
        self._waiting += size

    def taken(self, size: int) -> None:
        self._waiting -= size
        if not self.full:
            self._readers.unpark_all()

    async def wanted(self) -> None:
        """The handler starts to read: a client that waits for `100 Continue` may send."""
        on_wanted, self._on_wanted = self._on_wanted, _nothing
        await on_wanted()

    async def room(self) -> None:
        while self.full:
            await self._readers.park()


class GuardedBody(TrioBody):
    """Quart's body, telling the connection what was consumed. Awaiting it consumes it: do either, once."""

    def __init__(self, flow: BodyFlow) -> None:
        super().__init__(None, None)
        self._flow = flow

    async def __anext__(self) -> bytes:
        await self._flow.wanted()
        data = await super().__anext__()
        self._flow.taken(len(data))
        return data

    def __await__(self) -> Generator[Any, None, bytes]:
        return self._whole().__await__()

    async def _whole(self) -> bytes:
        whole = io.BytesIO()
        async for data in self:
            whole.write(data)
        return whole.getvalue()


class GuardedRequest(TrioRequest):
    """A request whose body is tied to its connection, where there is one (Quart's test client has none)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        flow = self.scope.get("state", {}).get("body_flow") or BodyFlow()
        self.body = GuardedBody(flow)


class GuardedQuart(QuartTrio):
    """The application class to build on. Its time-outs are off: the connection's guards time the client, and an
    answer that is streamed may take as long as its upstream."""

    request_class = GuardedRequest
    default_config = ImmutableDict(
        Quart.default_config | {"BODY_TIMEOUT": None, "MAX_CONTENT_LENGTH": None, "RESPONSE_TIMEOUT": None}
    )


class LimitedBody:
    """The body as it arrives; `ApiError` 413 once it passes `limit` bytes (with Content-Length: before the first)."""

    def __init__(self, request: Request, limit: int) -> None:
        self._body = request.body
        self._limit = limit
        self.size = request.content_length or 0
        """Bytes announced, or those received where that is more."""
        self._received = 0

    def __aiter__(self) -> "LimitedBody":
        return self

    async def __anext__(self) -> bytes:
        self.check()
        data = await anext(self._body)
        self._received += len(data)
        self.size = max(self.size, self._received)
        self.check()
        return data

    def check(self) -> None:
        if self.size > self._limit:
            raise ApiError(413, f"The request body is larger than the limit of {self._limit} bytes.")


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, at most `limit` bytes, else `ApiError` 413."""
    whole = io.BytesIO()
    async for data in LimitedBody(request, limit):
        whole.write(data)
    return whole.getvalue()


NEEDED = 4
"""Bytes of memory that one byte of a body takes until it is stored: it arrives, is copied whole, sliced and checked."""
SPARE_BYTES = 32 * 1024 * 1024
"""What must be left beside that, for everything else."""
LARGE_BYTES = 1024 * 1024
"""Bodies that are no larger together need no look at the memory."""


class BodyBudget:
    """A bound on the bytes of bodies held in memory at once, over all requests; beyond it, or where the system allows
    no more memory (`room`), a request gets a 503."""

    def __init__(self, max_bytes: int, room: Callable[[], float] = memory.room) -> None:
        self.max_bytes = max_bytes
        self._held = 0
        self._room = room

    @asynccontextmanager
    async def body(self, request: Request, limit: int) -> AsyncIterator[bytes]:
        """The whole body, its bytes counted as held until the block ends. `ApiError` 413 or 503.

        A body of known length is counted before it comes, so that one which does not fit is not received at all.
        """
        incoming = LimitedBody(request, limit)
        incoming.check()
        whole = io.BytesIO()
        with self.share() as hold:
            hold(incoming.size)
            async for data in incoming:
                whole.write(data)
                hold(incoming.size)
            yield whole.getvalue()

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Give a function that is told how many bytes the block holds by now, `ApiError` 503 where they are too many."""
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            held = self._hold(held, size)

        try:
            yield hold
        finally:
            self._held -= held

    def _hold(self, held: int, size: int) -> int:
        total = self._held + size - held
        if total > self.max_bytes:
            raise ApiError(503, "The server holds too many large requests at once.", retry_after=1)
        if size > held and not self._fits(total):
            raise ApiError(503, "The server is short of memory; try again later.", retry_after=5)
        self._held = total
        return size

    def _fits(self, total: int) -> bool:
        """Whether there is memory for bodies of so many bytes together, most of which may not have come yet."""
        return total <= LARGE_BYTES or NEEDED * total + SPARE_BYTES <= self._room()
