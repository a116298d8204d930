"""Where one request ends and the next begins must have one answer (RFC 9112, 6.3 and 11.2).

h11 is lenient in what it takes for a line, folds headers, and merges equal Content-Length headers; a proxy in front
may read the same bytes differently and let a second request be smuggled in. Everything ambiguous is an error here.
The receive buffer is the one place where heads and trailers are still bytes, so it is there that they are judged.
"""

import re

import h11
from h11._receivebuffer import ReceiveBuffer

MAX_CHUNK_HEADER_BYTES = 4096
MAX_LINE_SHOWN = 1024

_bare_lf = re.compile(rb"(?<!\r)\n")
_bare_cr = re.compile(rb"\r(?!\n)")


def check_lines(lines: list[bytes]) -> None:
    """Refuse a head or trailer section whose framing is ambiguous.

    `lines` are without their line ends; the first is the request line (or a trailer, which may not frame anything).
    Raises `h11.LocalProtocolError`, which h11 turns into the answer 400.
    """
    lengths: list[bytes] = []
    codings: list[bytes] = []
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            raise h11.LocalProtocolError("obsolete line folding")
        name, _, value = line.partition(b":")
        match name.lower():
            case b"content-length":
                lengths.append(value.strip(b" \t"))
            case b"transfer-encoding":
                codings.append(value.strip(b" \t").lower())
    if not lengths and not codings:
        return
    if lengths and codings:
        raise h11.LocalProtocolError("both Content-Length and Transfer-Encoding")
    if len(lengths) > 1:
        raise h11.LocalProtocolError("repeated Content-Length")
    if lengths and not lengths[0].isdigit():
        raise h11.LocalProtocolError("bad Content-Length")
    if codings and (codings != [b"chunked"] or lines[0].endswith(b"HTTP/1.0")):
        raise h11.LocalProtocolError("Transfer-Encoding other than one `chunked`")


class StrictReceiveBuffer(ReceiveBuffer):
    """h11's receive buffer, with CRLF as the only line end and the checks above on every head and trailer section."""

    def __init__(self, max_head_bytes: int, max_headers: int) -> None:
        super().__init__()
        self._max_head_bytes = max_head_bytes
        self._max_headers = max_headers
        self.first_line = b""
        """The first line of the section last looked at, or what has come of it."""

    def skip_blank_lines(self) -> None:
        """Drop empty lines before a request line (RFC 9112, 2.2)."""
        while self._data[:2] == b"\r\n":
            self._extract(2)

    def maybe_extract_lines(self) -> list[bytearray] | None:
        if self._data[:2] == b"\r\n":
            self._extract(2)
            return []
        self.first_line = bytes(self._data[:MAX_LINE_SHOWN]).partition(b"\r\n")[0]
        searched = max(0, self._multiple_lines_search - 3)
        end = self._data.find(b"\r\n\r\n", searched)
        size = len(self._data) if end < 0 else end
        if size > self._max_head_bytes:
            if b"\r\n" not in self._data[: self._max_head_bytes]:
                raise h11.LocalProtocolError("the request target is too long", error_status_hint=414)
            raise h11.LocalProtocolError("the header section is too large", error_status_hint=431)
        if _bare_lf.search(self._data, searched, size):
            raise h11.LocalProtocolError("a line ends in a bare LF")
        if end < 0:
            self._multiple_lines_search = size
            return None
        head = self._extract(end + 4)[:end]
        if _bare_cr.search(head):
            raise h11.LocalProtocolError("a CR inside a line")
        lines = head.split(b"\r\n")
        if len(lines) > self._max_headers + 1:
            raise h11.LocalProtocolError("too many headers", error_status_hint=431)
        check_lines([bytes(line) for line in lines])
        return lines

    def maybe_extract_next_line(self) -> bytearray | None:
        line = super().maybe_extract_next_line()
        if len(self._data if line is None else line) > MAX_CHUNK_HEADER_BYTES:
            raise h11.LocalProtocolError("a chunk header is too long")
        return line
