"""A front end on a real socket with the app of `shown_app`, and a client that speaks raw bytes."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve as stock_serve
from quart_trio import QuartTrio
from shown_app import Seen, make_app
from trio.testing import MockClock

from fibatchd.web.guards import Limits
from fibatchd.web.server import Serving, serve

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


def guard_off(**limits: Any) -> Any:
    """A parameter for a test that must fail with these limits switched off: the proof that the guard is what passes."""
    switched = dict.fromkeys(limits, math.inf) | {name: value for name, value in limits.items() if value is not None}
    return pytest.param(Limits(**switched), marks=pytest.mark.xfail(strict=True, reason="guard off"), id="guard-off")


@asynccontextmanager
async def _bounded() -> AsyncIterator[None]:
    """A test that hangs fails: after a day of mock time, or half a minute of real time."""
    mocked = isinstance(trio.lowlevel.current_clock(), MockClock)
    with trio.fail_after(86_400 if mocked else 30):
        yield


@asynccontextmanager
async def front(
    limits: Limits | None = None, *, app: QuartTrio | None = None, **options: Any
) -> AsyncIterator["Front"]:
    """Serves `app`; at the end of the block it is shut down, and must end by itself."""
    app = app or make_app()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    running = Front(app, listeners[0].socket.getsockname()[1])
    options = {"limits": limits, "shutdown": running.shutdown, "grace_s": 5} | options
    async with _bounded(), trio.open_nursery() as nursery:
        running.serving = await nursery.start(partial(serve, app, listeners, **options))
        async with running:
            yield running


@asynccontextmanager
async def stock_front() -> AsyncIterator["Front"]:
    """The same app on hypercorn and quart-trio as they come."""
    app = make_app(QuartTrio)
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.graceful_timeout = 5
    config.errorlog = None
    async with _bounded(), trio.open_nursery() as nursery:
        running = Front(app, 0)
        [url] = await nursery.start(partial(stock_serve, app, config, shutdown_trigger=running.shutdown.wait))
        running.port = int(url.rpartition(":")[2])
        async with running:
            yield running


@dataclass
class Front:
    app: QuartTrio
    port: int
    shutdown: trio.Event = field(default_factory=trio.Event)
    clients: list["Client"] = field(default_factory=list)
    serving: Serving | None = None

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        self.shutdown.set()
        for client in self.clients:
            await trio.aclose_forcefully(client.stream)

    @property
    def seen(self) -> Seen:
        return self.app.seen

    async def client(self) -> "Client":
        client = Client(await trio.open_tcp_stream("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def ask(self, request: bytes = GET) -> "Answer":
        """One request on a connection of its own."""
        client = await self.client()
        async with client.stream:
            await client.send(request)
            return await client.answer()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """Raw bytes out, answers in."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.stream = stream
        self.received = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self.received:
            await self._more()
        head, _, self.received = self.received.partition(b"\r\n\r\n")
        status_line, *fields = head.decode().split("\r\n")
        headers = dict(field.lower().split(": ", 1) for field in fields)
        return int(status_line.split()[1]), headers

    async def answer(self) -> Answer:
        status, headers = await self.head()
        while len(self.received) < int(headers.get("content-length", 0)):
            await self._more()
        size = int(headers.get("content-length", 0))
        body, self.received = self.received[:size], self.received[size:]
        return Answer(status, headers, body)

    async def rest(self) -> bytes:
        """Everything until the server closes; a reset ends it, too."""
        try:
            while True:
                await self._more()
        except (EOFError, trio.BrokenResourceError):
            rest, self.received = self.received, b""
            return rest

    async def _more(self) -> None:
        data = await self.stream.receive_some(65536)
        if not data:
            raise EOFError
        self.received += data


def post(path: str, body: bytes = b"", *headers: str, size: int | None = None) -> bytes:
    """A POST with Content-Length `size` (by default the body's)."""
    fields = [f"POST {path} HTTP/1.1", "host: a", f"content-length: {len(body) if size is None else size}", *headers]
    return "\r\n".join(fields).encode() + b"\r\n\r\n" + body
