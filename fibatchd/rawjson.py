"""JSON text handled as bytes, so that what a client or a model server wrote is passed on as it was written.

Decoding a body and encoding it again changes it: digits of floats, integers beyond 64 bits, key order, white space and
lone surrogates get lost. So a text is cut into slices of itself, and a member is replaced in place.

msgspec does the work in C. It checks the syntax inside its `Raw` slices too, but (0.20 to 0.23) it does not check that
strings there are UTF-8, it refuses the lone surrogate escapes that RFC 8259 allows, and knows no limit of nesting but
the interpreter's. This module makes up for that: its verdict is RFC 8259's, with MAX_DEPTH as the one limit of its own.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any, Never, TypeVar

import msgspec
from msgspec import Raw

from fibatchd.errors import InvalidJson, UnknownMember
from fibatchd.jsonbounds import MOST_PARTS, TOO_MUCH, holds_more, is_deeper, is_too_much
from fibatchd.jsonspans import element_spans, member_spans

T = TypeVar("T")

MAX_DEPTH = 512
"""The most levels of arrays and objects in one text: half of CPython's recursion limit, so that every decoder copes."""

_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
_MOST_SLICES = 1_000_000  # as Raw objects about 64 MB
_LONGEST_NAME = 100  # characters
_UTF8_PIECE = 2**20
_MOST_DIGITS = sys.int_info.default_max_str_digits

_decode_value = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_check_syntax = msgspec.json.Decoder(Raw).decode

# Applied only where the syntax is known to be right, which is why it can be short.
_COLON = re.compile(rb"\s*:\s*")
_WIDE_BREAKS = {b"\xc2\x85": rb"\u0085", b"\xe2\x80\xa8": rb"\u2028", b"\xe2\x80\xa9": rb"\u2029"}
"""In UTF-8, and as they may be written in a string. To look for one takes twenty times as long as to see that a text is
ASCII, or that it has no such first byte."""

# Applied to any text.
_ESCAPED_LETTER = re.compile(rb"\\u00(?:[67]|5[fF])")
_BYTE_OFFSET = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)")
_UNKNOWN_MEMBER = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_NUL_OR_SURROGATE = re.compile("[\0\ud800-\udfff]")


def read_object(text: bytes) -> dict[str, Raw]:
    """Check a client's text and return its object's members, each value a slice of the text.

    Of members with one name the last is returned (see `duplicate_member`). A slice keeps the whole text alive; `bytes()`
    copies it. Raises InvalidJson for what RFC 8259 does not allow (a byte order mark, invalid UTF-8, NaN, a raw control
    character, …), for more than MAX_DEPTH levels, for more than fits `jsonbounds`, and for a value that is not an object.
    """
    _check_amount(text)
    return _read_object(text)


def read_known(text: bytes, names: frozenset[str], *, null_others: bool = False) -> dict[str, Raw]:
    """Return the members of an object that may have these members only, each once; with `null_others` also any that are
    null, which are left out. Otherwise as `split_object`, but that no number of other members takes memory.

    Raises UnknownMember, InvalidJson.
    """
    try:
        found = _decoded(_decoder_of(names), text, "an object")
    except UnknownMember:
        if not null_others:
            raise
        _decoded(_check_syntax, text, "an object")
        found = None
    if found is None:
        members = dict(_known_members(text, names))
    else:
        members = {name: raw for name in names if (raw := getattr(found, name)) is not None}
    # Names with letters written as escapes aside, a member that occurs twice has its quoted name twice in the text.
    may_repeat = _has_room_for_another(text, members) and (
        any(text.count(b'"%b"' % name.encode()) > 1 for name in members) or _ESCAPED_LETTER.search(text)
    )
    if may_repeat and (twice := duplicate_member(text, members)) is not None:
        raise InvalidJson(f"{twice}: occurs twice")
    return members


def read_as(text: bytes, decode: Callable[[bytes], T]) -> T | None:
    """Return what a decoder of msgspec for a certain form makes of a text that keeps to the rules of `read_object`. None for
    any other text, right or wrong, which `read_object` tells; and for a large one, whose amount would have to be checked."""
    if len(text) > MOST_PARTS:
        return None
    try:
        found = decode(text)
        _check_shape(text)
    except (msgspec.DecodeError, InvalidJson, RecursionError):
        return None
    return found


def check_value(text: bytes | Raw) -> None:
    """Hold a value of any kind, cut out by `read_known`, to the rules of `read_object`. Raises InvalidJson."""
    _check_amount(whole := bytes(text))
    _check_shape(whole)


def is_object(text: bytes) -> bool:
    """Whether `text` is one JSON object by the rules of `read_object`, however much is in it."""
    try:
        _read_object(text)
    except InvalidJson:
        return False
    return True


def split_object(text: bytes | Raw) -> dict[str, Raw]:
    """Return the members of an object, each value a slice of `text`.

    For a part of what `read_object` has passed, and for a large text whose parts will each be given to `read_object`:
    UTF-8 below the keys, and depth, are left out. Raises InvalidJson for what is not JSON or not an object.
    """
    members = _decoded(_decode_object, text, "an object")
    if members is None:
        whole = bytes(text)
        members = {_string(key): Raw(memoryview(whole)[start:end]) for key, start, end in member_spans(whole)}
    return members


def split_array(text: bytes | Raw, most: int) -> list[Raw]:
    """Return the elements of an array, each a slice of `text`; what is said of `split_object` holds here too.

    Of an array with more than `most` elements at least `most + 1` are returned, but never millions more: the slices of
    16 million elements, which 32 MiB can hold, would fill a gigabyte. Raises InvalidJson for what is not an array.
    """
    whole = bytes(text)
    if not holds_more(whole, b",", _MOST_SLICES):
        elements = _decoded(_decode_array, text, "an array")
        if elements is not None:
            return elements
    elif not whole.lstrip().startswith(b"["):
        raise InvalidJson("expected an array")
    else:
        _decoded(_check_syntax, text, "an array")
    return [Raw(memoryview(whole)[start:end]) for start, end in islice(element_spans(whole), most + 1)]


def decode(text: bytes | Raw) -> Any:
    """Return the value of a text as Python's own types, for looking at; what is passed on stays raw.

    Exact, but that a float beyond the range of a double becomes the largest one, and of an integer beyond 4,300 digits the
    first 4,300 count, so that a check of range or sign still holds. Lone surrogates are kept. Raises InvalidJson.
    """
    try:
        return _decode_value(text)
    except (msgspec.DecodeError, RecursionError):
        return _decode_exactly(bytes(text))


def duplicate_member(text: bytes, members: dict[str, Raw]) -> str | None:
    """Return the first name that occurs twice at the top level of an object, or None.

    `members` is what `read_object` or `split_object` made of `text`. Names are compared as decoded: "\\u0061" is "a".
    """
    if not _has_room_for_another(text, members) or text == _as_json_dumps_writes(members):
        return None
    seen: set[str] = set()
    for key, _start, _end in member_spans(text):
        name = _string(key)
        if name in seen:
            return name
        seen.add(name)
    return None


def replace_member(text: bytes, name: str, value: bytes, members: dict[str, Raw] | None = None) -> bytes:
    """Return the object `text` with the value of its top-level member `name` replaced; every other byte stays.

    `text` is an object that `read_object` passes, `value` is JSON, and `name` consists of a-z and `_`. `members` are those of
    `text`, where they are known already. If the member occurs more than once, each is replaced. Raises KeyError if it does
    not occur.
    """
    span = _only_span(text, name, members)
    if span is not None:
        return text[: span[0]] + value + text[span[1] :]
    pieces = []
    done = 0
    for key, start, end in member_spans(text):
        if _string(key) == name:
            pieces += [text[done:start], value]
            done = end
    if not pieces:
        raise KeyError(name)
    return b"".join([*pieces, text[done:]])


def add_member(text: bytes, name: str, value: bytes) -> bytes:
    """Return the object `text` with the member `name` added at its end; every byte that was there stays.

    `text` is an object that `read_object` passes and has no such member yet, `value` is JSON, and `name` consists of a-z
    and `_`.
    """
    end = text.rindex(b"}")
    comma = b"" if text[:end].rstrip().endswith(b"{") else b","
    return b'%b%b"%b":%b%b' % (text[:end], comma, name.encode(), value, text[end:])


def jsonl_line(text: bytes) -> bytes:
    """Return a JSON text as one line, without its end, for readers that split as `str.splitlines` does.

    Line breaks between tokens become spaces. U+0085, U+2028 and U+2029, which may stand raw in a string and which
    `str.splitlines` takes for line ends, are escaped. `text` is valid JSON; every other byte stays.
    """
    line = text.replace(b"\n", b" ").replace(b"\r", b" ")
    if not line.isascii():
        for mark, escape in _WIDE_BREAKS.items():
            line = line.replace(mark, escape)
    return line


def jsonl(parts: list[bytes]) -> bytes:
    """Put JSON texts together, a line each, as `jsonl_line` makes them. Each comes in three parts: what an encoder wrote, a
    value that somebody else did, and what an encoder wrote behind it, with its `\\n`.

    Most need no change, so that all are looked at together. Line breaks between tokens can be in the values only, and to look
    for one there takes a fraction of the time of counting lines.
    """
    text, values = b"".join(parts), b"".join(parts[1::3])
    if not (b"\n" in values or b"\r" in values or _has_wide_breaks(text)):
        return text
    lines = [b"".join(parts[start : start + 3]) for start in range(0, len(parts), 3)]
    return b"".join([jsonl_line(line[:-1]) + b"\n" for line in lines])


def shown(name: str) -> str:
    """Return a client's name for a member as a message may repeat it: bounded, and text that every database can hold."""
    cut = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"
    return cut if storable(cut) else cut.encode("ascii", "backslashreplace").decode().replace("\0", "\\x00")


def storable(text: str) -> bool:
    """Whether a decoded string is Unicode text that UTF-8 and every database can hold: no NUL, no lone surrogate."""
    return not _NUL_OR_SURROGATE.search(text)


def _has_wide_breaks(text: bytes) -> bool:
    return not text.isascii() and any(mark[:1] in text and mark in text for mark in _WIDE_BREAKS)


def _read_object(text: bytes) -> dict[str, Raw]:
    members = split_object(text)
    _check_shape(text)
    return members


def _check_amount(text: bytes) -> None:
    if is_too_much(text):
        raise InvalidJson(TOO_MUCH)


def _check_shape(text: bytes) -> None:
    """Check what the decoders do not."""
    if not text.isascii():
        _check_utf8(text)
    if is_deeper(text, MAX_DEPTH):
        raise InvalidJson(_TOO_DEEP)


@cache
def _decoder_of(names: frozenset[str]) -> Callable[[bytes | Raw], Any]:
    """Return a decoder of objects with these members, None where one is not there."""
    fields = [(name, Raw, None) for name in sorted(names)]
    return msgspec.json.Decoder(msgspec.defstruct("Known", fields, forbid_unknown_fields=True)).decode


def _decoded(decoder: Callable[[bytes | Raw], T], text: bytes | Raw, expected: str) -> T | None:
    """Apply one of the decoders. None: the text is right, but lone surrogates keep the decoder from cutting it."""
    try:
        return decoder(text)
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None
    except msgspec.DecodeError as error:
        whole = bytes(text)
        # No escape of a surrogate is left, and every other byte stands where it stood: enough to judge the syntax.
        plain = whole.replace(rb"\\", b"__").replace(rb"\ud", rb"\u0").replace(rb"\uD", rb"\u0")
        if plain == whole or isinstance(error, msgspec.ValidationError):
            _explain(error, whole, expected)
    _decoded(decoder, plain, expected)
    return None


def _decode_exactly(text: bytes) -> Any:
    def integer(digits: str) -> int:
        return int(digits[:_MOST_DIGITS])

    def real(digits: str) -> float:
        return min(max(float(digits), -sys.float_info.max), sys.float_info.max)

    def refuse(name: str) -> Never:
        raise InvalidJson(f"{name} is not JSON")

    try:
        return json.loads(text.decode(), parse_int=integer, parse_float=real, parse_constant=refuse)
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None
    except ValueError as error:
        raise InvalidJson(str(error)) from None


def _check_utf8(text: bytes) -> None:
    """Decode it piece by piece: one character beyond 16 bits makes four bytes of each of a string's."""
    start = 0
    while start < len(text):
        piece = text[start : start + _UTF8_PIECE]
        try:
            piece.decode()
        except UnicodeDecodeError as error:
            is_cut = error.end == len(piece) == _UTF8_PIECE and error.reason == "unexpected end of data"
            if not is_cut:
                raise InvalidJson(f"not valid UTF-8 at byte {start + error.start}") from None
            piece = piece[: error.start]
        start += len(piece)


def _explain(error: msgspec.DecodeError, text: bytes, expected: str) -> Never:
    """Raise InvalidJson for what msgspec refused, saying where, and never quoting the text."""
    if text.startswith(b"\xef\xbb\xbf"):
        raise InvalidJson("starts with a byte order mark") from None
    _check_utf8(text)
    if isinstance(error, msgspec.ValidationError):
        unknown = _UNKNOWN_MEMBER.fullmatch(str(error))
        raise (UnknownMember(unknown[1]) if unknown else InvalidJson(f"expected {expected}")) from None
    found = _BYTE_OFFSET.fullmatch(str(error))
    if found is None:
        raise InvalidJson("not JSON: the text is empty or ends too early") from None
    reason, offset = found[1], int(found[2])
    if reason == "trailing characters":
        offset -= 1  # here msgspec points behind the character
    if text.startswith((b"NaN", b"Infinity"), offset):
        reason = "NaN and Infinity are not allowed"
    before = text[:offset].decode(errors="replace")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    raise InvalidJson(f"not JSON: {reason} (line {line}, column {column})") from None


def _known_members(text: bytes, names: frozenset[str]) -> Iterator[tuple[str, Raw]]:
    """Yield the members of these names; others must be null."""
    for key, start, end in member_spans(text):
        name = _string(key)
        if name in names:
            yield name, Raw(memoryview(text)[start:end])
        elif text[start:end] != b"null":
            raise UnknownMember(name)


def _only_span(text: bytes, name: str, members: dict[str, Raw] | None) -> tuple[int, int] | None:
    """Return where the value of the member `name` stands, if that can be told without reading all of the text.

    If the quoted name stands in the text once, no letter is written as an escape, and the object has the member, then this
    one place is its key.
    """
    quoted = b'"%b"' % name.encode()
    at = text.find(quoted)
    if at < 0 or text.find(quoted, at + 1) >= 0 or _ESCAPED_LETTER.search(text):
        return None
    value = (split_object(text) if members is None else members).get(name)
    colon = _COLON.match(text, at + len(quoted))
    if value is None or colon is None:
        return None
    return colon.end(), colon.end() + len(value)


def _string(token: bytes) -> str:
    """Decode a JSON string as written, lone surrogates included."""
    decoded: str = json.loads(token.decode())
    return decoded


def _has_room_for_another(text: bytes, members: dict[str, Raw]) -> bool:
    """Whether one of the members may stand in the text once more, which takes its name, quotes, a colon, a comma and a digit
    at least. White space between tokens is mostly less."""
    unused = len(text) - 1
    for name, raw in members.items():
        unused -= 4 + len(name) + len(raw)
    return unused >= 5 and bool(members) and unused >= 5 + min(map(len, members))


def _as_json_dumps_writes(members: dict[str, Raw]) -> bytes:
    """The object as Python's json.dumps spaces it, which many clients use."""
    return b"{%b}" % b", ".join([b'"%b": %b' % (key.encode(errors="replace"), raw) for key, raw in members.items()])
