"""A model server that answers as the test tells it, byte by byte if it wants to."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

COMPLETION = b'{"id":"chatcmpl-1","object":"chat.completion","model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"2, 3, 5"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}'


@dataclass
class Call:
    """One request as it arrived, and the way to answer it."""

    path: str
    body: bytes
    stream: trio.SocketStream

    async def reply(self, status: int = 200, body: bytes = COMPLETION, *headers: str) -> None:
        lines = [
            f"HTTP/1.1 {status} X",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        await self.stream.send_all("\r\n".join([*lines, *headers, "", ""]).encode() + body)

    async def open(self) -> None:
        await self.stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")

    async def event(self, value: Any) -> bytes:
        text = value if isinstance(value, bytes) else b"data: " + json.dumps(value).encode() + b"\n\n"
        await self.stream.send_all(text)
        return text

    async def gone(self) -> None:
        """Wait until the other side has closed."""
        try:
            while await self.stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass


Handler = Callable[[Call], Awaitable[None]]


async def complete(call: Call) -> None:
    await call.reply()


@dataclass
class ModelServer:
    """`handler` answers; `calls` are what has come so far."""

    port: int
    handler: Handler = complete
    calls: list[Call] = field(default_factory=list)

    @property
    def config(self) -> str:
        """A model "up-model" that it runs, priced, for the end of the API's configuration."""
        return (
            f'[[models]]\nid = "up-model"\naliases = ["up-alias"]\nprice_usd_per_million = {{ input = "1", output = "2" }}\n'
            f'upstreams = [{{ url = "http://127.0.0.1:{self.port}/v1", model = "up", timeout_s = 30 }}]\n'
        )

    async def serve(self, stream: trio.SocketStream) -> None:
        """Take one request and answer it."""
        async with stream:
            received = b""
            while b"\r\n\r\n" not in received:
                received += await stream.receive_some()
            head, _, body = received.partition(b"\r\n\r\n")
            request_line, *lines = head.decode().split("\r\n")
            size = int(dict(line.lower().split(": ", 1) for line in lines)["content-length"])
            while len(body) < size:
                body += await stream.receive_some()
            call = Call(request_line.split()[1], body, stream)
            self.calls.append(call)
            await self.handler(call)


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    """Serve for as long as the block runs."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = ModelServer(listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, server.serve, listeners)
        yield server
        nursery.cancel_scope.cancel()
