"""One connection to an upstream: sends a request's bytes, reads its answer, and knows whether it may be used again.

Everything the kernel can do at once is done at once; only where it cannot does the task wait. An exchange with a fast
server costs one `send`, one wait and one `recv`.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from fibatchd.errors import AnswerTimeout, ConnectionLost
from fibatchd.upstream.parser import AnswerParser
from fibatchd.upstream.turnstile import wait_in_turn

# Not below the 16 KiB of a TLS record: what OpenSSL had decrypted and kept back would not make the socket readable.
_READ_SIZE = 65536
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class NothingSent(OSError):
    """The kernel took no byte of the request: it may be sent again elsewhere, whatever its method."""


class Connection:
    """Wraps a connected, non-blocking socket (an `ssl.SSLSocket` after its handshake, for TLS)."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._unsent: memoryview | None = None
        self._cut_short = False
        self._expired = False
        self._wait: Callable[[socket.socket], Awaitable[None]] = trio.lowlevel.wait_readable
        self.parser = AnswerParser()
        self.fresh = True
        """No request was begun on it yet."""

    @property
    def reusable(self) -> bool:
        """Whether another request may follow: this one went out whole, and its answer came whole and left the way open."""
        return self.parser.reusable and not (self._unsent or self._cut_short or self._expired)

    def is_quiet(self) -> bool:
        """Between two requests: the server neither closed the connection nor said anything.

        Looks below TLS, where a close notification counts as something said. So does a late session ticket: that
        costs a connection, not a request.
        """
        try:
            socket.socket.recv(self._sock, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def begin(self, request: bytes, *, bodyless: bool, patient: bool = False) -> None:
        """Send as much of `request` as the kernel takes; `read` sends the rest. NothingSent: it took none."""
        self.parser.expect(bodyless=bodyless)
        self._wait = wait_in_turn if patient else trio.lowlevel.wait_readable
        self.fresh = False
        try:
            sent = self._sock.send(request)
        except _WOULD_BLOCK:
            sent = 0
        except OSError as error:
            raise NothingSent(*error.args) from error
        if sent < len(request):
            self._unsent = memoryview(request)[sent:]
            self._send_now()

    async def read(self) -> None:
        """Wait for bytes of the answer and parse them; first send what is unsent.

        ConnectionLost, AnswerBroken; AnswerTimeout: `expire` was called.
        """
        if self._unsent:
            await self._send_rest()
        else:
            await self._wait(self._sock)
            self._read_now()

    async def _send_rest(self) -> None:
        """Send until all is sent or an answer arrives: a server may refuse a request before it has read all of it.

        Then it wants no more (RFC 9112, 9.5), and what it said must be read although it closes the connection.
        """
        while self._unsent:
            await self._wait_either_way()
            self._read_now()
            if self.parser.head_complete:
                self._stop_sending()
            else:
                self._send_now()

    def _send_now(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except _WOULD_BLOCK:
            pass
        except OSError:  # the server reads no more; whether it said why, reading will tell
            self._stop_sending()

    def _stop_sending(self) -> None:
        self._unsent = None
        self._cut_short = True

    async def _wait_either_way(self) -> None:
        async with trio.open_nursery() as nursery:

            async def wait(until_ready: Callable[[socket.socket], Awaitable[None]]) -> None:
                await until_ready(self._sock)
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait, trio.lowlevel.wait_readable)
            nursery.start_soon(wait, trio.lowlevel.wait_writable)

    def _read_now(self) -> None:
        if self._expired:
            raise AnswerTimeout("the time for the answer is up")
        try:
            data = self._sock.recv(_READ_SIZE)
        except _WOULD_BLOCK:
            return
        except OSError as error:
            raise ConnectionLost(f"before the answer was whole: {error}") from error
        if data:
            self.parser.feed(data)
        elif self.parser.ends_with_connection:
            self.parser.complete = True
        else:
            raise ConnectionLost("closed by the server before the answer was whole")

    def expire(self) -> None:
        """The time is up: shut down both ways, below TLS. The server learns it, and so does who waits in `read`."""
        self._expired = True
        with suppress(OSError):  # it is gone already
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close at once, without a word to the server. May be called again."""
        self._sock.close()
