"""HTTP/1.1 on one connection: hypercorn's h11 protocol, strict about framing and with the project's own error answers.

`GuardedProtocol` never waits for the handler: what the client sent is handed on at once, and `room` and `backlog` tell
the connection when to stop reading. A request that has to be refused below the app is answered once, in the error shape
of its route, and the connection ends.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

import h11
import structlog
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Request, Response
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import ASGIHTTPState, HTTPStream
from hypercorn.trio.task_group import TaskGroup
from hypercorn.typing import ASGISendEvent, ConnectionState, H11SendableEvent

from fibatchd.ids import request_id
from fibatchd.web.forwarded import UNIX, client_of

from .body import BodyFlow
from .context import Context
from .framing import StrictReceiveBuffer
from .pace import Phase

log = structlog.get_logger(__name__)

Address = tuple[str, int] | None
Headers = list[tuple[bytes, bytes]]


class Refused(Exception):
    """A request that the app is not to see. Raised by the checks below, answered by `GuardedProtocol.refuse`."""

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or []


class GuardedStream(HTTPStream):
    """One request and its answer. What a handler sends after the client has left or was refused is dropped."""

    def __init__(self, protocol: "GuardedProtocol", client: Address, scheme: str, request_id: str) -> None:
        super().__init__(
            protocol.app, protocol.config, protocol.context, protocol.task_group, scheme == "https", client,
            protocol.server, protocol.stream_send, STREAM_ID,
        )  # fmt: skip
        self.request_id = request_id
        self.error_body = protocol.context.error_body

    async def app_send(self, message: ASGISendEvent | None) -> None:
        if not self.closed:
            await super().app_send(message)

    async def _send_error_response(self, status_code: int) -> None:
        """The app failed before it answered. hypercorn's own answer has no body."""
        body = self.error_body(self.scope["path"], status_code, "Internal server error.", self.request_id)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.send(Response(stream_id=STREAM_ID, headers=headers, status_code=status_code))
        if self.scope["method"] != "HEAD":
            await self.send(Body(stream_id=STREAM_ID, data=body))
        await self.send(EndBody(stream_id=STREAM_ID))
        self.state = ASGIHTTPState.CLOSED


class GuardedProtocol(H11Protocol):
    """The protocol of one connection. `send` takes hypercorn's events: bytes, end of request, end of connection."""

    context: Context
    stream: GuardedStream | None

    def __init__(
        self,
        context: Context,
        tasks: TaskGroup,
        tls: bool,
        client: Address,
        server: Address,
        send: Callable[[Event], Awaitable[None]],
    ) -> None:
        super().__init__(
            context.app, context.config, context, tasks, ConnectionState({}), tls, client, server, send
        )  # fmt: skip
        limits = context.limits
        self._peer = UNIX if client is None else client[0]
        self._peer_trusted = self._peer in context.trusted
        self.connection = h11.Connection(h11.SERVER, 2 * limits.max_head_bytes)
        self.buffer = StrictReceiveBuffer(limits.max_head_bytes, limits.max_headers)
        self.connection._receive_buffer = self.buffer
        self.body = BodyFlow()
        self._length_known = True
        self._unsent = b""
        self._request: h11.Request | None = None
        self._request_id = ""

    @property
    def phase(self) -> Phase:
        match self.connection.their_state:
            case h11.IDLE:
                return Phase.HEAD if self.backlog else Phase.IDLE
            case h11.SEND_BODY:
                return Phase.BODY
            case _:
                return Phase.ANSWER

    @property
    def backlog(self) -> int:
        """Bytes received that h11 has not parsed: part of a head, or requests behind the one being answered."""
        return len(self.buffer)

    @property
    def unread(self) -> bool:
        """The client is, or may be, still sending what nobody will read."""
        return self.backlog > 0 or self.connection.their_state in (h11.SEND_BODY, h11.ERROR)

    @property
    def streaming(self) -> bool:
        """An answer of unannounced length is under way."""
        return self.stream is not None and not self._length_known

    async def resume(self) -> None:
        """Go on with what was received behind the request that has now been answered."""
        if self.stream is None:
            self.body = BodyFlow()
        await self._handle_events()

    async def send_continue(self) -> None:
        """An interim answer, where one is allowed (RFC 9110, 15.2): HTTP/1.1, and the final one has not begun."""
        if self.connection.our_state is h11.SEND_RESPONSE and self.connection.their_http_version == b"1.1":
            await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=[]))

    async def refuse(self, refused: Refused) -> None:
        """Answer below the app, where no answer has begun, and end the connection."""
        await self._close_stream()
        if self.connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self.send(RawData(self._refusal(refused)))
        await self.send(Closed())

    def _refusal(self, refused: Refused) -> bytes:
        name = self._request_id or request_id()
        path = self._path()
        log.info("request refused", status=refused.status, reason=refused.message, request_id=name, path=path)
        self.context.traffic.refuse(refused.status)
        body = self.context.error_body(path, refused.status, refused.message, name)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *request_id_headers(name),
            *refused.headers,
            *self.config.response_headers("h11"),
        ]
        events: list[H11SendableEvent] = [h11.Response(status_code=refused.status, headers=headers), h11.EndOfMessage()]
        if self._request is None or self._request.method != b"HEAD":
            events.insert(1, h11.Data(data=body))
        return b"".join(self.connection.send(event) for event in events)

    def _path(self) -> str:
        """The path asked for, as far as it is known."""
        line = self.buffer.first_line if self._request is None else b"_ " + self._request.target
        _, _, target = line.partition(b" ")
        path = re.split(rb"[ ?]", target)[0].decode("latin-1")
        return path if path.startswith("/") else ""  # anything else may be a header, with a key in it

    async def _handle_events(self) -> None:
        while True:
            try:
                if self.connection.their_state is h11.IDLE:
                    self._request = None
                    self.buffer.skip_blank_lines()
                event = self.connection.next_event()
                match event:
                    case h11.Request():
                        await self._create_stream(event)
                    case h11.Data():
                        await self._body_arrived(event.data)
                    case h11.EndOfMessage():
                        if self.stream is not None:
                            await self.stream.handle(EndBody(stream_id=STREAM_ID))
                    case h11.ConnectionClosed():
                        if self.stream is None:
                            await self.send(Closed())
                        return
                    case _:
                        return
            except h11.RemoteProtocolError as error:
                left = self.connection.trailing_data[1]
                await (self.send(Closed()) if left else self.refuse(malformed(error)))
                return
            except Refused as refused:
                await self.refuse(refused)
                return

    async def _body_arrived(self, data: bytes) -> None:
        self.body.arrived(len(data))
        if self.body.total > self.context.limits.max_body_bytes:
            raise Refused(413, "The request body is too large.")
        if self.stream is not None:
            await self.stream.handle(Body(stream_id=STREAM_ID, data=data))

    async def _create_stream(self, request: h11.Request) -> None:
        self._request = request
        self._request_id = request_id()
        self._length_known = True
        self._check_request(request)
        target, host = split_target(request.target)
        headers = list(request.headers)
        client, scheme, forwarded_host = self._client(headers)
        host = forwarded_host or host
        if host:
            headers = [(b"host", host), *(header for header in headers if header[0] != b"host")]
        self.body = BodyFlow(self.context.limits.body_high_water, self._continue_if_expected)
        self.stream = GuardedStream(self, client, scheme, self._request_id)
        await self.send(Updated(idle=False))
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=headers,
                http_version=request.http_version.decode("ascii"),
                method=request.method.decode("ascii").upper(),
                raw_path=target,
                state=ConnectionState({"request_id": self._request_id, "body_flow": self.body}),
            )
        )

    def _check_request(self, request: h11.Request) -> None:
        if self.context.draining:
            raise Refused(503, "The server is shutting down.", [(b"retry-after", b"1")])
        if request.http_version not in (b"1.0", b"1.1"):
            raise Refused(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.")
        for name, value in request.headers:
            if name == b"content-encoding" and value.lower() not in (b"", b"identity"):
                raise Refused(
                    415, "A request's Content-Encoding is not supported.", [(b"accept-encoding", b"identity")]
                )
            if name == b"content-length" and int(value) > self.context.limits.max_body_bytes:
                raise Refused(413, "The request body is too large.")

    def _client(self, headers: Headers) -> tuple[Address, str, bytes | None]:
        """Address, scheme and host of the client; the host only where a trusted proxy tells it."""
        scheme = "https" if self.ssl else "http"
        if not self._peer_trusted:
            return self.client, scheme, None
        told = client_of(self._peer, scheme, headers, self.context.trusted)
        client = self.client if told.address == self._peer else (told.address, 0)
        return client, told.scheme, told.host.encode("ascii") if told.host else None

    async def _continue_if_expected(self) -> None:
        if self.connection.they_are_waiting_for_100_continue:
            await self.send_continue()

    async def stream_send(self, event: StreamEvent) -> None:
        if isinstance(event, Response):
            event = replace(event, headers=self._answer_headers(event))
        await super().stream_send(event)

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        """Send what h11 makes of an event. The head of an answer of known length goes out with the first of its body, which
        is there already: one packet and one turn of the event loop less."""
        try:
            self._unsent += self.connection.send(event) or b""
        except h11.LocalProtocolError:
            if self.connection.their_state is not h11.ERROR:
                raise
            return
        if self._unsent and not (isinstance(event, h11.Response) and self._length_known):
            data, self._unsent = self._unsent, b""
            await self.send(RawData(data))

    def _answer_headers(self, answer: Response) -> Headers:
        names = {name.lower() for name, _ in answer.headers}
        self._length_known = b"content-length" in names
        headers = list(answer.headers)
        if b"x-request-id" not in names:
            headers += request_id_headers(self._request_id)
        if self.context.draining or self.connection.their_state is h11.SEND_BODY:
            headers.append((b"connection", b"close"))
        return headers


def malformed(error: h11.RemoteProtocolError) -> Refused:
    """What h11 says of the request, without the bytes it quotes behind a colon: a key may be among them."""
    return Refused(error.error_status_hint, f"The request is malformed: {str(error).partition(':')[0]}.")


def request_id_headers(request_id: str) -> Headers:
    """Both names, since OpenAI's SDKs read the one and Anthropic's the other."""
    value = request_id.encode("ascii")
    return [(b"x-request-id", value), (b"request-id", value)]


def split_target(target: bytes) -> tuple[bytes, bytes | None]:
    """The request target in origin form, and the host of one in absolute form (RFC 9112, 3.2). Else `Refused` 400."""
    if target.startswith(b"/") or target == b"*":
        return target, None
    absolute = re.fullmatch(rb"https?://([^/?#@]+)(/[^?]*)?(\?.*)?", target, re.IGNORECASE)
    if absolute is None:
        raise Refused(400, "The request target is not a path.")
    host, path, query = absolute.groups(b"")
    return (path or b"/") + query, host
