"""A server on 127.0.0.1 that sends exactly the bytes a test tells it to, cut where the test says, and an h11 reader.

A script is an async function of one `Peer`, run once for each connection that the server accepts; when it returns the
connection is closed.
"""

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import h11
import trio
import trio.testing

RECORDED = {path.stem: path.read_bytes() for path in sorted((Path(__file__).parent / "recorded").glob("*.http"))}

Script = Callable[["Peer"], Awaitable[None]]


class Peer:
    """The server's side of one connection. `number` counts connections from 0."""

    def __init__(self, stream: trio.abc.Stream, number: int, sock: trio.socket.SocketType) -> None:
        self._stream = stream
        self._sock = sock
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        self.number = number

    async def request(self) -> tuple[h11.Request, bytes] | None:
        """Read one whole request, strictly; None if the client closed the connection instead."""
        head, body = None, []
        if self._parser.their_state is h11.DONE:
            # The scripts write their answers past h11; it is told of one, so that it expects the next request.
            self._parser.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            self._parser.send(h11.EndOfMessage())
            self._parser.start_next_cycle()
        while True:
            event = self._parser.next_event()
            if event is h11.NEED_DATA:
                self._parser.receive_data(await self._stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return head, b"".join(body)
            else:
                return None

    async def send(self, *pieces: bytes) -> None:
        """Send each piece so that the client reads it on its own: everybody else waits before the next goes out."""
        for piece in pieces:
            await self._stream.send_all(piece)
            await trio.testing.wait_all_tasks_blocked()

    async def receive_some(self) -> None:
        """Return when a part of a request has come."""
        await self._stream.receive_some(1)

    async def wait_closed(self) -> None:
        """Return when the client has closed the connection. Whatever it sends before that is dropped."""
        try:
            while await self._stream.receive_some(65536):
                pass
        except (trio.BrokenResourceError, ConnectionError):
            pass

    async def close_tls(self) -> None:
        """Say that no more will come, as TLS wants it said; without this the connection just ends."""
        if isinstance(self._stream, trio.SSLStream):
            await self._stream.unwrap()

    def reset(self) -> None:
        """Make the end of the script an RST instead of an orderly FIN."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class ScriptedServer:
    def __init__(self, scheme: str, port: int) -> None:
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.accepted = 0
        self.open = 0


@asynccontextmanager
async def scripted_server(script: Script, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """Run `script` for every connection until the block ends. An error of the script fails the test."""
    async with trio.open_nursery() as nursery:

        async def handle(stream: trio.SocketStream) -> None:
            number = server.accepted
            server.accepted += 1
            server.open += 1
            wrapped = trio.SSLStream(stream, tls, server_side=True, https_compatible=True) if tls else stream
            try:
                await script(Peer(wrapped, number, stream.socket))
            except (trio.BrokenResourceError, ConnectionError):
                pass  # the client left
            finally:
                server.open -= 1
                stream.socket.close()

        listeners = await nursery.start(trio.serve_tcp, handle, 0)
        server = ScriptedServer("https" if tls else "http", listeners[0].socket.getsockname()[1])
        yield server
        nursery.cancel_scope.cancel()


async def settle() -> None:
    """Return when client and server have both done all they can do now.

    One wait is not enough: a script that waits in `Peer.send` is woken by the same stillness, and goes on after it.
    """
    for _ in range(6):
        await trio.testing.wait_all_tasks_blocked()


def answer_with(*pieces: bytes) -> Script:
    """A script that answers every request with these bytes, until the client closes the connection."""

    async def script(peer: Peer) -> None:
        while await peer.request() is not None:
            await peer.send(*pieces)

    return script


def answer_once(*pieces: bytes) -> Script:
    """A script that answers one request with these bytes and closes the connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)

    return script


def read_with_h11(message: bytes) -> tuple[int, bytes]:
    """Status and body of an answer, its connection closed after it. h11.RemoteProtocolError: it is none."""
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(message)
    reader.receive_data(b"")
    status, body = 0, b""
    while True:
        event = reader.next_event()
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            return status, body
        elif event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("no whole answer")
