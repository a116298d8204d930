"""JSON texts as no encoder would write them, and a reading of them that loses nothing, to compare edits with.

`objects()` generates objects with random white space, escapes, repeated names and lone surrogates. `lossless()` keeps the order
and repetition of members and the digits of numbers, by Python's own json module with RFC 8259's rules added.
"""

import json
from typing import Any, Never

from hypothesis import strategies as st


class Number(str):
    """A number as it was written."""


class Members(list[tuple[str, Any]]):
    """An object's members in order, repeated names included."""


def lossless(text: bytes) -> Any:
    """Read a JSON text; raises ValueError for what RFC 8259 does not allow."""

    def refuse(name: str) -> Never:
        raise ValueError(name)

    return json.loads(
        text.decode(), parse_int=Number, parse_float=Number, parse_constant=refuse, object_pairs_hook=Members
    )


def is_json_object(text: bytes) -> bool:
    try:
        return isinstance(lossless(text), Members)
    except ValueError:
        return False


TEXTS = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(
    ["model", '"model":', "\u0085\u2028\u2029", "[{}]", "\\"]
)
NUMBERS = (
    st.integers().map(str)
    | st.sampled_from(["-0", "1e999", "0.10000000000000000000055", "1E+2", "9" * 400])
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
)
NAMES = st.sampled_from(["model", "stream", "a"]) | TEXTS
SPACES = st.text(" \t\r\n", max_size=2)


@st.composite
def strings(draw: st.DrawFn, values: st.SearchStrategy[str] = TEXTS) -> str:
    """A string, each character raw or escaped."""
    written = ""
    for char in draw(values):
        raw = char not in '"\\' and char >= " " and not "\ud800" <= char <= "\udfff" and draw(st.booleans())
        written += char if raw else escaped(char)
    return f'"{written}"'


def escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


@st.composite
def listed(draw: st.DrawFn, items: st.SearchStrategy[str], brackets: str) -> str:
    parts = [draw(SPACES) + item + draw(SPACES) for item in draw(st.lists(items, max_size=4))]
    return brackets[0] + (",".join(parts) or draw(SPACES)) + brackets[1]


def members(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(strings(NAMES), SPACES, SPACES, values).map(lambda part: f"{part[0]}{part[1]}:{part[2]}{part[3]}")


SCALARS = st.sampled_from(["null", "true", "false"]) | NUMBERS | strings()
VALUES = st.recursive(SCALARS, lambda inner: listed(inner, "[]") | listed(members(inner), "{}"), max_leaves=8)


def objects() -> st.SearchStrategy[bytes]:
    return st.tuples(SPACES, listed(members(VALUES), "{}"), SPACES).map(lambda parts: "".join(parts).encode())


def arrays() -> st.SearchStrategy[bytes]:
    return st.tuples(SPACES, listed(VALUES, "[]"), SPACES).map(lambda parts: "".join(parts).encode())


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """An object with a few bytes gone, doubled or replaced: mostly no JSON any more, but nearly."""
    text = bytearray(draw(objects()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        piece = draw(
            st.sampled_from(
                [
                    b"",
                    b'"',
                    b"\\",
                    b"\\u",
                    b"\\ud800",
                    b"{",
                    b"]",
                    b",",
                    b":",
                    b"0",
                    b"-",
                    b".",
                    b"e",
                    b"NaN",
                    b"\0",
                    b"\n",
                    b"\x0b",
                    b"\x7f",
                    b"\xff",
                    b"\xc2",
                    b"\xed\xa0\x80",
                    b"\xc2\xa0",
                    b"\xef\xbb\xbf",
                ]
            )
        )
        text[at : at + draw(st.integers(0, 2))] = piece
    return bytes(text)
