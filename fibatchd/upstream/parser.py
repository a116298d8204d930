"""Bytes to an HTTP/1.1 answer (RFC 9112), strictly: llhttp does the reading, this adds what a client must know besides.

Sans-I/O: it is fed what was read, so every case can be tested without a socket. Whatever two parsers might read in
two ways is refused, since a proxy between us and the model server may read it in the other.
"""

from collections.abc import Iterable

import httptools

from fibatchd.errors import AnswerBroken
from fibatchd.upstream.coding import Inflater

HEAD_LIMIT = 65536
"""Most bytes of status line and headers, interim answers included; and most bytes of chunk framing or trailers in a
row. Noticed at the end of a read, so one read more may be taken in."""


class AnswerParser:
    """Reads the answers that come over one connection, one after the other.

    After `expect`, `feed` what was read until `complete`; `take` what there is of the body at any time.
    """

    def __init__(self) -> None:
        self._llhttp = httptools.HttpResponseParser(self)
        self.expect()

    def expect(self, *, bodyless: bool = False) -> None:
        """A request was sent: the next answer may begin. `bodyless`: it was a HEAD, no body will follow the headers."""
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.head_complete = False
        self.complete = False
        self.ends_with_connection = False
        """The body has no length and is not chunked: the server's end of the connection is its end."""
        self._bodyless = bodyless
        self._keep_alive = False
        self._overrun = False
        self._unproductive = 0
        self._pieces: list[bytes] = []
        self._inflater: Inflater | None = None

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request: the answer ended where the server said, and leaves it open."""
        return self.complete and self._keep_alive and not self._overrun

    def feed(self, data: bytes) -> None:
        """Take in what was read. AnswerBroken: it is no HTTP answer, or its head has no end."""
        self._unproductive += len(data)
        try:
            self._llhttp.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.complete:
                self._overrun = True  # the answer stands; what followed it was never asked for
                return
            if isinstance(error.__context__, AnswerBroken):
                raise error.__context__ from None
            raise AnswerBroken(str(error)) from None
        if self._unproductive > HEAD_LIMIT and not self.complete:
            raise AnswerBroken(f"more than {HEAD_LIMIT} bytes of headers or chunk framing")

    def take(self) -> Iterable[bytes]:
        """The pieces of the body, decoded, that came since the last call. AnswerBroken: not in the coding announced."""
        pieces, self._pieces = self._pieces, []
        if self._inflater is None:
            return pieces
        return self._inflater.decode(pieces, last=self.complete)

    # What follows is called by llhttp. It wraps what is raised here; `feed` unwraps it.

    def on_message_begin(self) -> None:
        if self.complete:
            raise AnswerBroken("bytes after the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head_complete:
            return  # a trailer: nothing here has a use for one (RFC 9110, 6.5.1 lets a recipient drop them)
        name = name.lower()
        value = value.rstrip(b" \t")
        headers = self.headers
        headers[name] = headers[name] + b", " + value if name in headers else value

    def on_headers_complete(self) -> None:
        status = self._llhttp.get_status_code()
        version = self._llhttp.get_http_version()
        if status == 101 or status < 100 or version not in ("1.1", "1.0"):
            raise AnswerBroken(f"status {status} of HTTP/{version} was not asked for")
        if status < 200:
            return
        headers = self.headers
        has_coding = b"transfer-encoding" in headers
        # A transfer coding besides chunked was not asked for, and in HTTP/1.0 it marks bad framing (RFC 9112, 6.1).
        if has_coding and (headers[b"transfer-encoding"].lower() != b"chunked" or version == "1.0"):
            raise AnswerBroken("a transfer coding that was not asked for")
        self.status = status
        self.head_complete = True
        if self._bodyless:
            self.complete = True
        elif status not in (204, 304):
            self.ends_with_connection = not has_coding and b"content-length" not in headers
            if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
                self._inflater = Inflater(headers[b"content-encoding"])

    def on_body(self, data: bytes) -> None:
        self._unproductive = 0
        if not self._bodyless:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self.head_complete:
            self.complete = True
            self._keep_alive = self._llhttp.should_keep_alive()
        else:  # 100 Continue, 103 Early Hints: its headers say nothing about the answer to come
            self.headers = {}
