"""Cuts a JSONL file that comes in pieces into lines, numbered as an editor numbers them. Pure.

A line ends with `\\n` or `\\r\\n`, the last one perhaps with nothing; a byte order mark at the start is skipped; blank lines
are skipped but counted.
"""

from msgspec import Struct

BOM = b"\xef\xbb\xbf"
BLANKS = b" \t\r"


class Line(Struct, frozen=True, gc=False):
    """A line that is not blank. `text` is without its end; None where the line is too long to be looked at."""

    number: int
    text: bytes | None


class LineSplitter:
    """Takes a file's bytes in pieces and gives whole lines. Of a line longer than `longest` bytes it keeps nothing."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._most_held = longest + len(BOM) + len(b"\r")
        self._held = bytearray()
        self._too_long = False
        self._number = 0

    def feed(self, piece: bytes) -> list[Line]:
        """Return the lines that are complete with this piece."""
        first, *others = piece.split(b"\n")
        if not others:
            self._hold(first)
            return []
        self._hold(first)
        lines = [self._held_line()]
        whole = others[:-1]
        # Millions of line breaks with nothing between them must not cost a call each.
        lines += [self._line(number, text) for number, text in enumerate(whole, self._number + 1) if text]
        self._number += len(whole)
        self._hold(others[-1])
        return [line for line in lines if line is not None]

    def close(self) -> list[Line]:
        """Return the last line, where its end was missing."""
        line = self._held_line()
        return [line] if line is not None else []

    def _hold(self, part: bytes) -> None:
        if len(self._held) + len(part) > self._most_held:
            self._too_long = True
            self._held.clear()
        elif not self._too_long:
            self._held += part

    def _held_line(self) -> Line | None:
        self._number += 1
        text = bytes(self._held)
        self._held.clear()
        if self._too_long:
            self._too_long = False
            return Line(self._number, None)
        return self._line(self._number, text)

    def _line(self, number: int, text: bytes) -> Line | None:
        if number == 1:
            text = text.removeprefix(BOM)
        text = text.removesuffix(b"\r")
        if not text.strip(BLANKS):
            return None
        return Line(number, text if len(text) <= self._longest else None)
