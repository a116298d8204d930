"""Server-sent events as bytes (the HTML standard, section 9.2.6): cut into events without changing any of them."""

import re
from collections.abc import Iterator

from fibatchd.inference.endpoint import BrokenReply

LONGEST_EVENT = 4 * 2**20
"""Bytes of one event, at most: it is held until its end has come, and edited on the loop."""

# Where a line ends and the next is blank. A CR before LF is no end of a line by itself: else the end of each line would be
# taken for two. A CR that is the last byte so far may be the first half of CRLF: what follows must have come.
_END = re.compile(rb"(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r(?=[^\n])|\n)")
_BLANK = re.compile(rb"[\r\n]++")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventSplitter:
    """Takes a stream in pieces and gives whole events, each with the blank line behind it, wherever the pieces were cut.

    Further blank lines are given as they come, apart from events: a server which sends nothing else costs no more than
    its bytes, and none is lost or kept with an event that an editor drops.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0
        self._mark = _BYTE_ORDER_MARK

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Give the events that are complete with this chunk. BrokenReply: one is longer than any may be."""
        self._held += chunk
        start = 0
        while True:
            if (blank := _BLANK.match(self._held, start)) is not None:
                yield self._event(start, blank.end())
                start = blank.end()
            if (match := _END.search(self._held, max(start, self._searched - 3))) is None:
                break
            _check_length(match.end() - start)
            yield self._event(start, match.end())
            start = match.end()
        del self._held[:start]
        _check_length(len(self._held))
        self._searched = len(self._held)

    def close(self) -> Iterator[bytes]:
        """The stream ended: give what is left, as an event whose blank line is missing."""
        if self._held.strip():
            yield self._event(0, len(self._held))
        self._held.clear()

    def _event(self, start: int, end: int) -> bytes:
        """Cut an event out, without the byte order mark that the standard allows before the first."""
        mark, self._mark = self._mark, b""
        return bytes(self._held[start:end]).removeprefix(mark)

    @staticmethod
    def data(event: bytes) -> bytes | None:
        """Return an event's data, its lines joined by newlines; None where it has none."""
        lines = [
            line[5:].removeprefix(b" ") for line in event.splitlines() if line == b"data" or line.startswith(b"data:")
        ]
        return b"\n".join(lines) if lines else None

    @staticmethod
    def name(event: bytes) -> bytes | None:
        """Return the value of an event's `event` field, None where it has none."""
        return next((line[6:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"event:")), None)


def _check_length(length: int) -> None:
    if length > LONGEST_EVENT:
        raise BrokenReply(f"an event of the stream has more than {LONGEST_EVENT} bytes")
