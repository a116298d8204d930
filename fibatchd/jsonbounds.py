"""How deep a JSON text is and how much is in it, told from its bytes before anything is decoded.

A few bytes of text may become a hundred of memory: 32 MiB of `[],[],…` are a gigabyte of lists and take seconds in which
no other thread runs. So a text is measured first, in chunks between which others have their turn.
"""

from collections.abc import Iterator

MOST_PARTS = 200_000
"""The most arrays, objects and members in one request; the largest real ones have some thousands."""
MOST_VALUES = 1_000_000
"""The most values, which may be plain numbers: several times the tokens that an embedding request may hold."""
TOO_MUCH = f"holds more than {MOST_PARTS} arrays, objects and members, or more than {MOST_VALUES} values"

_CHUNK = 64 * 1024
_COUNTED_AT_ONCE = 4 * 2**20  # a millisecond
_NOT_STRUCTURAL = bytes(set(range(256)) - set(b'"[]{},:'))


def is_deeper(text: bytes, levels: int) -> bool:
    """Whether a text of good syntax has more levels of arrays and objects than that."""
    if len(text) <= 2 * levels or text.count(b"[") + text.count(b"{") <= levels:
        return False
    depth = 0
    for part in _structure(text):
        if depth + part.count(b"[") + part.count(b"{") <= levels:
            depth += len(part) - part.count(b",") - part.count(b":") - 2 * (part.count(b"]") + part.count(b"}"))
            continue
        for byte in part.translate(None, b",:"):
            depth += 1 if byte in b"[{" else -1
            if depth > levels:
                return True
    return False


def holds_more(text: bytes, what: bytes, most: int) -> bool:
    """Whether a byte is in a text more than `most` times; counted in steps, between which other threads have their turn."""
    counted = 0
    for start in range(0, len(text), _COUNTED_AT_ONCE):
        if (counted := counted + text.count(what, start, start + _COUNTED_AT_ONCE)) > most:
            return True
    return False


def is_too_much(text: bytes) -> bool:
    """Whether a text of good syntax holds more than MOST_PARTS or MOST_VALUES. (Of another text the verdict says nothing.)"""
    if len(text) <= MOST_PARTS or (_parts(text) <= MOST_PARTS and text.count(b",") <= MOST_VALUES):
        return False
    parts = commas = 0
    for part in _structure(text):
        parts += _parts(part)
        commas += part.count(b",")
        if parts > MOST_PARTS or commas > MOST_VALUES:
            return True
    return False


def _parts(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{") + text.count(b":")


def _structure(text: bytes) -> Iterator[bytes]:
    """Give the brackets, colons and commas that stand outside strings, chunk by chunk."""
    start, in_string = 0, 0
    while start < len(text):
        chunk = text[start : start + _CHUNK]
        if (len(chunk) - len(chunk.rstrip(b"\\"))) % 2:
            chunk = text[start : start + _CHUNK + 1]  # an escape is not cut in two
        start += len(chunk)
        bare = chunk.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NOT_STRUCTURAL).split(b'"')
        yield b"".join(bare[in_string::2])
        in_string = (in_string + len(bare) - 1) % 2
