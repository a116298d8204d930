"""The HTTP/1.1 client that requests are dispatched to model servers with: small, strict and fast.

One `UpstreamClient` per configured upstream. It is no general client: it follows no redirect, keeps no cookie, knows
no proxy, and hides no failure. What leaves it is an answer, or one of

ConnectFailed    no connection could be made: nothing was sent
ConnectionLost   it ended before the answer was whole
AnswerTimeout    the answer was not whole in time
AnswerBroken     what came is not an HTTP/1.1 answer, or not in the content coding it announces
AnswerTooLarge   the body passed the cap

When a request is sent a second time. A server may close an idle connection at the moment it is used. Generating is
not idempotent (RFC 9110, 9.2.2): a request that may have been read is never repeated here; the caller counts the
attempt. It goes out on another connection only where nothing of it can have been read: the connection was found
closed before the first write, or that write failed with no byte taken. A reset or an end that comes after that,
before any byte of an answer, is ConnectionLost even on a reused connection. To make that rare, connections are kept
for less than the five seconds after which the usual model servers (uvicorn's default) close theirs.
"""

import re
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import trio

from fibatchd import __version__
from fibatchd.errors import ConnectFailed
from fibatchd.upstream.answer import Answer, StreamedAnswer, read_answer
from fibatchd.upstream.connection import Connection, NothingSent
from fibatchd.upstream.origin import Origin
from fibatchd.upstream.pool import ConnectionPool

_REQUEST = re.compile(r"[A-Z]+ /[!-~]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*")
_FRAMING = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "expect", "upgrade", "te", "trailer"}
)
# Answers travel a local network: decompressing would cost more than it saves. What comes compressed anyway is decoded.
_DEFAULT_HEADERS = {
    "user-agent": f"fibatchd/{__version__}",
    "accept-encoding": "identity",
    "content-type": "application/json",
}


class UpstreamClient:
    """Speaks to one upstream over a pool of kept-alive connections.

    url              http://, https:// or http+unix://, see `Origin`; its path precedes that of every request
    ca_file          PEM file of certificates to trust besides the system's
    headers          sent with every request; a default (user-agent, accept-encoding, content-type) gives way to them
    max_connections  most connections open at once; further requests wait their turn
    connect_timeout  seconds for name, connection and TLS handshake together
    idle_timeout     seconds after which an unused connection is closed

    ValueError: the URL or a header is malformed. OSError: `ca_file` cannot be read or holds no certificate.
    """

    def __init__(
        self,
        url: str,
        *,
        ca_file: str | None = None,
        headers: Mapping[str, str] = {},
        max_connections: int,
        connect_timeout: float = 10,
        idle_timeout: float = 4,
    ) -> None:
        self._origin = Origin.parse(url)
        self._context = _tls_context(ca_file) if self._origin.tls else None
        self._connect_timeout = connect_timeout
        self._pool = ConnectionPool(self._connect, max_connections=max_connections, idle_timeout=idle_timeout)
        constant = _DEFAULT_HEADERS | {name.lower(): value for name, value in headers.items()}
        self._constant_lines = f"host: {self._origin.authority}\r\n" + _header_lines(constant.items())

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Iterable[tuple[str, str]] = (),
        timeout: float,
        max_body: int,
        patient: bool = False,
    ) -> Answer:
        """Send a request and wait for the whole answer, whatever its status.

        path      follows the URL's own path; begins with a slash, is percent-encoded, may have a query
        headers   added to the constant ones
        timeout   seconds from the first byte sent to the last byte read: not for waiting for a free connection, which
                  `max_connections` governs, nor for connecting, which has its own
        max_body  most bytes of the decoded body
        patient   whether other work of this process goes first, see `turnstile`: for a batch, which nobody waits for

        Raises the five errors at the top of this file; ValueError if method, path or a header is malformed.
        """
        connection = await self._begin(method, path, body, headers, timeout, patient)
        try:
            return await read_answer(connection, max_body)
        finally:
            self._pool.release(connection)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Iterable[tuple[str, str]] = (),
        timeout: float,
    ) -> AsyncIterator[StreamedAnswer]:
        """Send a request and wait for the head of the answer; the body is read by iterating over what is yielded.

        Parameters and errors are those of `request`; `timeout` is for the whole answer, body included. Leaving the
        block before the end closes the connection at once, by which model servers know that nobody wants the rest.
        """
        connection = await self._begin(method, path, body, headers, timeout, patient=False)
        try:
            answer = StreamedAnswer(connection)
            await answer.read_head()
            try:
                yield answer
            finally:
                answer.detach()
        finally:
            self._pool.release(connection)

    async def aclose(self) -> None:
        """Close the idle connections. Requests that still run end as they would; their connections are closed then."""
        self._pool.close()
        await trio.lowlevel.checkpoint()

    async def _begin(
        self, method: str, path: str, body: bytes, headers: Iterable[tuple[str, str]], timeout: float, patient: bool
    ) -> Connection:
        """A connection on which the request is on its way. See the top of this file for what may be repeated."""
        request = self._serialise(method, path, body, headers)
        while True:
            connection = await self._pool.acquire()
            fresh = connection.fresh
            try:
                connection.begin(request, bodyless=method == "HEAD", patient=patient)
            except NothingSent as error:
                self._pool.release(connection)
                if fresh:
                    raise ConnectFailed(f"{self._origin}: {error}") from error
            else:
                self._pool.limit(connection, timeout)
                return connection

    def _serialise(self, method: str, path: str, body: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
        if not _REQUEST.fullmatch(f"{method} {path}"):
            raise ValueError(f"malformed method or path: {method!r} {path!r}")
        lines = _header_lines(headers) if headers else ""
        head = (
            f"{method} {self._origin.base}{path} HTTP/1.1\r\n"
            f"{self._constant_lines}{lines}content-length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body

    async def _connect(self) -> Connection:
        try:
            with trio.fail_after(self._connect_timeout):
                return Connection(await self._origin.connect(self._context))
        except trio.TooSlowError:
            raise ConnectFailed(f"{self._origin}: no connection within {self._connect_timeout} s") from None
        except OSError as error:
            raise ConnectFailed(f"{self._origin}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    # trio reports one failure for all addresses, and chains what it met at each.
    if isinstance(error.__cause__, ExceptionGroup):
        return "; ".join(map(str, error.__cause__.exceptions))
    return str(error.__cause__ or error)


def _header_lines(headers: Iterable[tuple[str, str]]) -> str:
    lines = []
    for name, value in headers:
        line = f"{name}: {value}"
        if not _HEADER.fullmatch(line) or name.lower() in _FRAMING:
            raise ValueError(f"malformed header, or one that is not the caller's to set: {name!r}")
        lines.append(line + "\r\n")
    return "".join(lines)


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    context.set_alpn_protocols(["http/1.1"])
    # Debian 12's Python 3.11.2 sets it, later ones do not: an answer that was cut would pass for whole. OpenSSL 1.1.1, which
    # Python 3.11 may be built with, has no such option, and never ignores that.
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    return context
