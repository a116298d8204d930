"""Where the parts of a JSON text stand: the spans of an object's members and of an array's elements.

For texts of good syntax (`rawjson` sees to that). No match of a pattern goes on for long, for no other thread runs while
one lasts, and a single string may be as long as a body may be.
"""

import math
import re
from collections.abc import Iterator

from fibatchd.errors import InvalidJson
from fibatchd.jsonbounds import MOST_PARTS, TOO_MUCH

# The syntax being right, these can be short. No group is possessive: Python before 3.11.5 matches such wrongly.
_SPACE = re.compile(rb"[ \t\r\n]{0,65536}+")
_STRING_PART = re.compile(rb'(?:[^"\\]{1,4096}+|\\.){0,256}')
_PRIMITIVE = re.compile(rb"[^\s,\]}]{0,65536}+")
# Strings of usual length, with what stands between them, at one go.
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]{1,64}+|"[^"\\]{0,64}+"){0,1024}')

_QUOTE, _COMMA, _CLOSE_BRACE, _CLOSE_BRACKET = b'",}]'


def member_spans(text: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield each member of an object: its key as written, quotes included, and where its value starts and ends."""
    at = _after_space(text, text.index(b"{") + 1)
    while text[at] != _CLOSE_BRACE:
        end = _string_end(text, at)
        start = _after_space(text, _after_space(text, end) + 1)
        key, end = text[at:end], _value_end(text, start)
        yield key, start, end
        at = _next_item(text, end)


def element_spans(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each element of an array starts and ends. Raises InvalidJson for one of far more than MOST_PARTS."""
    at = _after_space(text, text.index(b"[") + 1)
    while text[at] != _CLOSE_BRACKET:
        end = _value_end(text, at, most=3 * MOST_PARTS)  # a part has up to two brackets and a key
        yield at, end
        at = _next_item(text, end)


def _next_item(text: bytes, end: int) -> int:
    """Return where the next member or element begins, or where the bracket stands that closes them."""
    at = _after_space(text, end)
    return _after_space(text, at + 1) if text[at] == _COMMA else at


def _value_end(text: bytes, start: int, most: float = math.inf) -> int:
    """Return where a value ends that begins at `start`. Raises InvalidJson for one of more than `most` brackets."""
    if text[start] == _QUOTE:
        return _string_end(text, start)
    if text[start] not in b"[{":
        return _through(_PRIMITIVE, text, start)
    depth = brackets = 0
    at = start
    while True:
        if text[at] == _QUOTE:
            at = _string_end(text, at)
        else:
            depth += 1 if text[at] in b"[{" else -1
            at += 1
            if depth == 0:
                return at
            if (brackets := brackets + 1) > most:
                raise InvalidJson(TOO_MUCH)
        at = _through(_TO_BRACKET, text, at)


def _string_end(text: bytes, start: int) -> int:
    return _through(_STRING_PART, text, start + 1) + 1


def _after_space(text: bytes, start: int) -> int:
    return _through(_SPACE, text, start)


def _through(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    """Return where what the pattern matches ends, match by match."""
    while (found := pattern.match(text, at)) is not None and found.end() > at:
        at = found.end()
    return at
