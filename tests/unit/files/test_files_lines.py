"""Lines of a JSONL file, however it is cut into pieces."""

from fibatchd_plugins.files.lines import BOM, Line, LineSplitter
from hypothesis import given
from hypothesis import strategies as st

LONGEST = 20


def cut(content, sizes):
    """The content in pieces of these sizes, and the rest."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(content[start : start + size])
        start += size
    return [*pieces, content[start:]]


def split(pieces, longest=LONGEST):
    splitter = LineSplitter(longest)
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    return lines + splitter.close()


def expected(content, longest=LONGEST):
    """The same, of the whole content at once."""
    lines = []
    for number, text in enumerate(content.removeprefix(BOM).split(b"\n"), 1):
        text = text.removesuffix(b"\r")
        if len(text) > longest:
            lines.append(Line(number, None))
        elif text.strip(b" \t\r"):
            lines.append(Line(number, text))
    return lines


contents = st.lists(
    st.sampled_from(
        [
            b"{}",
            b"x",
            b" ",
            b"\t",
            b"\r",
            b"\n",
            b"\r\n",
            BOM,
            b"\xe2\x80\xa8",
            b"\x0b",
            b"y" * 19,
            b"z" * 21,
            b"w" * 60,
        ]
    )
).map(b"".join)


@given(content=st.one_of(contents, st.binary(max_size=200)), sizes=st.lists(st.integers(0, 30)))
def test_pieces_make_no_difference(content, sizes):
    assert split(cut(content, sizes)) == expected(content)


@given(content=contents)
def test_byte_by_byte(content):
    assert split([bytes([byte]) for byte in content]) == expected(content)


def test_a_line_has_the_limit_or_one_byte_more():
    assert split([b"x" * 20 + b"\n" + b"y" * 21 + b"\n" + b"z" * 20]) == [
        Line(1, b"x" * 20),
        Line(2, None),
        Line(3, b"z" * 20),
    ]
    assert split([b"x" * 20 + b"\r\n", b"y" * 20 + b"\r"]) == [Line(1, b"x" * 20), Line(2, b"y" * 20)]
    assert split([BOM + b"x" * 20 + b"\r\n"]) == [Line(1, b"x" * 20)]


def test_only_the_first_bytes_are_a_byte_order_mark():
    assert split([b"\n" + BOM + b"x"]) == [Line(2, BOM + b"x")]


def test_other_separators_are_part_of_a_line():
    text = "a\u2028b\u0085c\x0bd\re".encode()
    assert split([text]) == [Line(1, text)]


def test_nothing_of_a_long_line_is_kept():
    splitter = LineSplitter(LONGEST)
    for _ in range(1000):
        assert splitter.feed(b"x" * 1000) == []
        assert len(splitter._held) <= LONGEST + 4
    assert splitter.feed(b"\nok\n") == [Line(1, None), Line(2, b"ok")]
