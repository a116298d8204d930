"""One connection, from accept to close: who reads, until when, and how it ends. It stands in for hypercorn's TCPServer.

A single task reads. Its wait for the next bytes is one cancel scope with one deadline, moved without awaiting, so that
the end of an answer can start the keep-alive time even in a task that is being cancelled. Nothing that goes wrong here
leaves `run`.
"""

import ssl
from socket import SO_ERROR, SOL_SOCKET

import structlog
import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.task_group import TaskGroup
from hypercorn.utils import parse_socket_addr

from .context import Context
from .pace import Pace, Phase
from .protocol import GuardedProtocol, Refused

log = structlog.get_logger(__name__)

RECEIVE_BYTES = 64 * 1024
SEND_BYTES = 64 * 1024
MAX_BACKLOG_BYTES = 64 * 1024
CLOSE_S = 1

PeerGone = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class Connection:
    """One accepted connection; over TLS where `tls` is given."""

    def __init__(self, context: Context, stream: trio.SocketStream, tls: ssl.SSLContext | None = None) -> None:
        self.context = context
        self.stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = stream
        self.socket = stream.socket
        self.tls = tls is not None
        if tls is not None:
            self.stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        self.protocol: GuardedProtocol
        self._life = trio.CancelScope()  # the reader and the handlers
        self._wait = trio.CancelScope()  # the reader's present wait
        self._pace = Pace(context.limits, trio.current_time())
        self._send_lock = trio.Lock()
        self._woken = self._ended = self._half_closed = self._linger = False

    async def run(self) -> None:
        """Serve the connection to its end. Raises nothing but `trio.Cancelled`."""
        try:
            await self._contained()
        except* (*PeerGone, trio.TooSlowError):
            pass  # the client left, or its TLS handshake came to nothing
        except* Exception:
            log.exception("connection failed")
        finally:
            self.context.gone(self)

    async def _contained(self) -> None:
        room = self.context.make_room()
        self.context.idle(self)
        with self._life:
            if isinstance(self.stream, trio.SSLStream):
                with trio.fail_after(self.context.limits.head_s):
                    await self.stream.do_handshake()
            async with TaskGroup() as tasks:
                self.protocol = self._start_protocol(tasks)
                if not room:
                    await self.protocol.refuse(Refused(503, "Too many connections.", [(b"retry-after", b"1")]))
                    self._linger = True
                await self._read()
                # The answer is out, or the client has left: a handler still at work is at work for nobody.
                self._life.cancel()
        await self._close()

    def _start_protocol(self, tasks: TaskGroup) -> GuardedProtocol:
        client = parse_socket_addr(self.socket.family, self.socket.getpeername())
        server = parse_socket_addr(self.socket.family, self.socket.getsockname())
        return GuardedProtocol(self.context, tasks, self.tls, client, server, self.send)

    async def _read(self) -> None:
        while not self._ended:
            data = await self._receive()
            if data is not None:
                await self._received(data)
            elif self._woken:
                self._woken = False
                await self.protocol.resume()
            else:
                await self._out_of_time()
            self._pace.enter(self.protocol.phase, trio.current_time())

    async def _receive(self) -> bytes | None:
        """The next bytes; None when the time is up, or when `_wake` was called."""
        if self._woken:
            return None
        with trio.CancelScope() as self._wait:
            if self._half_closed:
                await self._watch()
            if self.protocol.body.full:
                await self.protocol.body.room()
                self._pace.restart(trio.current_time())
            if self.protocol.phase is Phase.ANSWER and self.protocol.backlog >= MAX_BACKLOG_BYTES:
                await trio.sleep_forever()
            self._wait.deadline = self._pace.deadline
            return bytes(await self.stream.receive_some(RECEIVE_BYTES))
        return None

    async def _received(self, data: bytes) -> None:
        self._pace.received(len(data))
        self._half_closed = not data
        if self._half_closed and self.protocol.streaming:
            # No probe can be sent inside an answer, and a stream may pause for long: taken for a client that left.
            self.cut()
        await self.protocol.handle(RawData(data))

    async def _out_of_time(self) -> None:
        if self._pace.kept_up():
            self._pace.restart(trio.current_time())
        elif self.protocol.unread:
            await self.protocol.refuse(Refused(408, "The request did not arrive in time."))
        else:
            self._end()

    async def _watch(self) -> None:
        """The client has sent all it will. Find out whether it waits for its answer or has left: whoever has left
        resets the connection when something arrives, and an interim answer may be sent at any time."""
        limits = self.context.limits
        while True:
            await trio.sleep(limits.probe_s)
            if self.socket.getsockopt(SOL_SOCKET, SO_ERROR):
                self.cut()
            with trio.move_on_after(limits.send_s, shield=True):
                # Shielded from `_wake`, which would cut the probe in two.
                await self.protocol.send_continue()

    async def send(self, event: Event) -> None:
        """What the protocol asks of its connection; only for bytes does it wait."""
        if isinstance(event, RawData):
            await self._send_all(event.data)
        elif isinstance(event, Closed):
            self._end()
        elif isinstance(event, Updated) and event.idle:
            self.context.idle(self)
            self._pace.enter(self.protocol.phase, trio.current_time())
            self._wait.deadline = self._pace.deadline
            if self.protocol.backlog or self.protocol.body.full or self._half_closed:
                self._wake()
        else:
            self.context.busy(self)

    async def _send_all(self, data: bytes) -> None:
        """Send in pieces, each with its time. Cut short, by the client or by a cancelled handler, the answer is
        beyond repair, and so is the connection."""
        rest = memoryview(data)
        try:
            await self._begin_to_send()
            try:
                while rest:
                    with trio.fail_after(self.context.limits.send_s):
                        rest = rest[await self._send_piece(rest) :]
            finally:
                self._send_lock.release()
        except (*PeerGone, trio.TooSlowError):
            self.cut()
        except trio.Cancelled:
            self.cut()
            raise

    async def _begin_to_send(self) -> None:
        """Wait for who else is sending. Where nobody is, the answer does not wait for a turn of the event loop."""
        try:
            self._send_lock.acquire_nowait()
        except trio.WouldBlock:
            await self._send_lock.acquire()

    async def _send_piece(self, data: memoryview) -> int:
        """Send `SEND_BYTES`, or as much more as the socket takes at once; return how many bytes that were."""
        if isinstance(self.stream, trio.SSLStream):
            await self.stream.send_all(data[:SEND_BYTES])
            return SEND_BYTES
        sent = 0
        while sent < min(SEND_BYTES, len(data)):
            sent += await self.stream.socket.send(data[sent:])
        return sent

    def cut(self) -> None:
        """End the connection at once, whatever is under way."""
        self._ended = True
        self._linger = False
        self._life.cancel()
        self._wait.cancel()

    def _end(self) -> None:
        self._ended = True
        self._linger = self.protocol.unread and not self._half_closed
        self._wake()

    def _wake(self) -> None:
        self._woken = True
        self._wait.cancel()

    async def _close(self) -> None:
        self.context.idle(self)
        if self._linger:
            with trio.move_on_after(self.context.limits.linger_s) as self._wait:
                await self._drop_the_rest()
        with trio.move_on_after(CLOSE_S):
            await self.stream.aclose()

    async def _drop_the_rest(self) -> None:
        """Let the client finish sending and read its answer: to close on unread bytes would reset the connection and
        destroy the answer on its way."""
        if isinstance(self.stream, trio.SocketStream):
            await self.stream.send_eof()
        while await self.stream.receive_some(RECEIVE_BYTES):
            pass
