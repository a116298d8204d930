"""Server-sent events as bytes (the HTML standard, section 9.2.6): cut into events without changing any of them."""

import re
from collections.abc import Iterator

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\r\n\n|\n\r\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DATA = re.compile(rb"^data(?:: ?(.*))?$", re.MULTILINE)


class EventSplitter:
    """Takes a stream in pieces and gives whole events, each with the blank line that ends it."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0
        self._mark = _BYTE_ORDER_MARK

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Give the events that are complete with this chunk."""
        self._held += chunk
        start = 0
        while (match := _END.search(self._held, max(start, self._searched - 3))) is not None:
            yield self._unmarked(bytes(self._held[start : match.end()]))
            start = self._searched = match.end()
        del self._held[:start]
        self._searched = len(self._held)

    def close(self) -> Iterator[bytes]:
        """The stream ended: give what is left, as an event whose blank line is missing."""
        if self._held.strip():
            yield self._unmarked(bytes(self._held))
        self._held.clear()

    def _unmarked(self, event: bytes) -> bytes:
        """Take the byte order mark off that the standard allows before the first event."""
        mark, self._mark = self._mark, b""
        return event.removeprefix(mark)

    @staticmethod
    def data(event: bytes) -> bytes | None:
        """Return an event's data, its lines joined by newlines; None where it has none."""
        lines = [match[1] or b"" for match in _DATA.finditer(event.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))]
        return b"\n".join(lines) if lines else None

    @staticmethod
    def name(event: bytes) -> bytes | None:
        """Return the value of an event's `event` field, None where it has none."""
        match = re.search(rb"^event: ?(.*?)\r?$", event, re.MULTILINE)
        return match[1] if match else None
