"""Forms of arbitrary bytes, in arbitrary pieces: read as they are, or refused."""

from contextlib import suppress

import pytest
from fibatchd_plugins.files.forms import Part, read_parts
from hypothesis import given, settings
from hypothesis import strategies as st

from fibatchd.errors import ApiError

BOUNDARY = b"b"


class FakeRequest:
    mimetype = "multipart/form-data"

    def __init__(self, boundary="b"):
        self.mimetype_params = {"boundary": boundary}


async def body(pieces):
    for piece in pieces:
        yield piece


def run(coroutine):
    """Run what never waits."""
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    return stopped.value.value


def read(pieces, request=None):
    async def collect():
        found = []
        async for part in read_parts(request or FakeRequest(), body(pieces)):
            if isinstance(part, Part):
                found.append((part.name, part.filename, b""))
            else:
                name, filename, data = found.pop()
                found.append((name, filename, data + part))
        return found

    return run(collect())


def form(parts):
    made = b""
    for name, filename, data in parts:
        disposition = f'form-data; name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
        made += b"--b\r\nContent-Disposition: " + disposition.encode() + b"\r\n\r\n" + data + b"\r\n"
    return made + b"--b--\r\n"


def pieces_of(content, sizes):
    pieces = []
    for size in sizes:
        pieces.append(content[:size])
        content = content[size:]
    return [*pieces, content]


plain = st.text("abcXYZ 0-9", min_size=1, max_size=8)
data = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from([b"\r\n", b"\r", b"\n", b"--", b"--b", b"-"])), max_size=8
).map(b"".join)
harmless = data.filter(lambda content: b"--b" not in b"\r\n" + content + b"\r\n")
parts = st.lists(st.tuples(plain, st.none() | plain, harmless), max_size=5)


@settings(max_examples=300)
@given(
    parts=parts,
    sizes=st.lists(st.integers(0, 50)),
    before=st.sampled_from([b"", b"preamble\r\n"]),
    behind=st.binary(max_size=30),
)
def test_what_was_sent_arrives(parts, sizes, before, behind):
    assert read(pieces_of(before + form(parts) + behind, sizes)) == parts


@settings(max_examples=300)
@given(
    content=st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from(
                [b"--b\r\n", b"--b--", b"\r\n\r\n", b"Content-Disposition: form-data", b'; name="x"', b"\r\n"]
            ),
        )
    ).map(b"".join),
    sizes=st.lists(st.integers(0, 20)),
)
def test_anything_is_read_or_refused(content, sizes):
    with suppress(ApiError):
        read(pieces_of(content, sizes))


@given(parts=parts.filter(bool), cut=st.integers(1, 200))
def test_a_form_that_is_cut_is_refused(parts, cut):
    whole = form(parts)
    with pytest.raises(ApiError):
        read([whole[: len(whole) - 2 - min(cut, len(whole) - 2)]])


def test_the_pieces_given_are_bounded():
    async def sizes():
        content = b"x" * 5_000_000
        parts = read_parts(FakeRequest(), body([form([("file", "f", content)])]))
        return [len(part) async for part in parts if isinstance(part, bytes)]

    found = run(sizes())
    assert sum(found) == 5_000_000
    assert max(found) <= 2 * 64 * 1024


def test_a_refusal_does_not_quote_the_form():
    content = b'--b\r\nContent-Disposition: form-data; name="file"; filename="private-\xe4"\r\n\r\n{}\r\n--b--\r\n'
    with pytest.raises(ApiError) as refused:
        read([content])
    assert refused.value.status == 400
    assert refused.value.message.endswith("Segment header failed to decode")
