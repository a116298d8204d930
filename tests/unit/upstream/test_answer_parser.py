"""The answer parser without sockets: recorded, hand-made, cut, broken and mutated answers."""

import h11
import pytest
from answers import BROKEN, CHUNKED, GOOD
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_server import RECORDED, read_with_h11

from fibatchd.errors import AnswerBroken
from fibatchd.upstream.parser import HEAD_LIMIT, AnswerParser


def parse(*pieces: bytes, bodyless: bool = False) -> tuple[AnswerParser, bytes]:
    parser = AnswerParser()
    parser.expect(bodyless=bodyless)
    body = b""
    for piece in pieces:
        parser.feed(piece)
        body += b"".join(parser.take())
    return parser, body


def outcome(parser: AnswerParser, body: bytes) -> tuple[object, ...]:
    return parser.status, parser.headers, body, parser.complete, parser.ends_with_connection, parser.reusable


@pytest.mark.parametrize("name", GOOD)
def test_good_answer_is_read_alike_wherever_it_is_cut(name: str) -> None:
    message, status, body, complete, reusable = GOOD[name]
    parser, got = parse(message)
    assert (parser.status, got, parser.complete, parser.reusable) == (status, body, complete, reusable)
    assert parser.ends_with_connection is not complete
    for cut in range(1, len(message)):
        assert outcome(*parse(message[:cut], message[cut:])) == outcome(parser, got)
    assert outcome(*parse(*(bytes((byte,)) for byte in message))) == outcome(parser, got)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_answer_is_refused_wherever_it_is_cut(name: str) -> None:
    message = BROKEN[name]
    with pytest.raises(AnswerBroken):
        parse(message)
    for cut in range(1, len(message)):
        with pytest.raises(AnswerBroken):
            parse(message[:cut], message[cut:])
    with pytest.raises(AnswerBroken):
        parse(*(bytes((byte,)) for byte in message))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_answer_is_read_as_h11_reads_it_wherever_it_is_cut(name: str) -> None:
    message = RECORDED[name]
    expected = read_with_h11(message)
    parser, got = parse(message)
    assert (parser.status, got) == expected
    assert parser.complete
    assert parser.reusable
    for cut in range(1, len(message)):
        early, _ = parse(message[:cut])
        assert not early.complete
        assert outcome(*parse(message[:cut], message[cut:])) == outcome(parser, got)
    assert outcome(*parse(*(bytes((byte,)) for byte in message))) == outcome(parser, got)


MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["replace", "insert", "delete", "double"]),
        st.floats(0, 1, exclude_max=True),
        st.sampled_from([b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b"0", b"9", b"f", b",", b";", b"-", b"\xff"]),
    ),
    min_size=1,
    max_size=3,
)


def mutate(message: bytes, mutations: list[tuple[str, float, bytes]]) -> bytes:
    for kind, where, what in mutations:
        at = int(where * len(message))
        removed = 0 if kind in ("insert", "double") else 1
        message = (
            message[:at]
            + (message[at : at + 9] if kind == "double" else what * (kind != "delete"))
            + message[at + removed :]
        )
    return message


@settings(deadline=None)
@given(st.sampled_from(sorted([*RECORDED.values(), *(good[0] for good in GOOD.values())])), MUTATIONS)
def test_mutated_answer_is_refused_or_read_as_h11_reads_it(
    message: bytes, mutations: list[tuple[str, float, bytes]]
) -> None:
    mutated = mutate(message, mutations)
    try:
        parser, body = parse(mutated)
        expected = read_with_h11(mutated)
    except (AnswerBroken, h11.RemoteProtocolError):
        return
    assert parser.complete or parser.ends_with_connection
    if b"content-encoding" not in parser.headers:
        assert (parser.status, body) == expected


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=5))
def test_noise_is_refused_and_nothing_else_raised(pieces: list[bytes]) -> None:
    try:
        parser, body = parse(*pieces)
    except AnswerBroken:
        return
    assert not parser.complete
    assert body == b""


@pytest.mark.parametrize(
    "extra", [b"x", b"H", b"\0", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", b"HTTP/1.1 100 C\r\n\r\n"]
)
@pytest.mark.parametrize("name", ["length", "chunked", "close", "no content"])
def test_extra_bytes_leave_the_answer_and_spoil_the_connection(name: str, extra: bytes) -> None:
    message, status, body, *_ = GOOD[name]
    for pieces in ((message + extra,), (message, extra)):
        parser, got = parse(*pieces)
        assert (parser.status, got) == (status, body)
        assert parser.complete
        assert not parser.reusable


def test_next_answer_on_the_same_connection_starts_afresh() -> None:
    parser, _ = parse(GOOD["chunked, trailers"][0])
    for name in ("length", "no content", "continue", "chunked"):
        message, status, body, *_ = GOOD[name]
        parser.expect()
        assert not parser.complete
        parser.feed(message)
        assert (parser.status, b"".join(parser.take()), parser.reusable) == (status, body, True)


@pytest.mark.parametrize("surprise", [b"", b"a body all the same"])
def test_answer_to_head_ends_with_its_headers(surprise: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nContent-Encoding: gzip\r\n\r\n"
    parser, body = parse(head + surprise, bodyless=True)
    assert parser.complete
    assert body == b""
    assert not parser.reusable  # llhttp still waits for the 500 bytes


def test_headers_are_lower_case_trimmed_and_joined() -> None:
    parser, _ = parse(
        b"HTTP/1.1 429 X\r\nRetry-After: \t7 \t\r\nVary: a\r\nX-Empty:\r\nVARY: b\r\nContent-Length: 0\r\n\r\n"
    )
    assert parser.headers == {b"retry-after": b"7", b"vary": b"a, b", b"x-empty": b"", b"content-length": b"0"}


def test_trailers_are_no_headers() -> None:
    parser, _ = parse(CHUNKED + b"0\r\nRetry-After: 9\r\n\r\n")
    assert parser.headers == {b"transfer-encoding": b"chunked"}


@pytest.mark.parametrize(
    "flood",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * HEAD_LIMIT,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * HEAD_LIMIT * 3,
        b"HTTP/1.1 200 " + b"y" * HEAD_LIMIT * 3,
        b"HTTP/1.1 100 Continue\r\n\r\n" * HEAD_LIMIT,
        b"\r\n" * HEAD_LIMIT * 2,
        CHUNKED + b"0\r\n" + b"X: y\r\n" * HEAD_LIMIT,
        CHUNKED + b"2;" + b"y" * HEAD_LIMIT * 3,
    ],
    ids=["headers", "one header", "reason", "interim answers", "blank lines", "trailers", "chunk extension"],
)
def test_head_without_an_end_is_refused_within_a_read_of_the_limit(flood: bytes) -> None:
    parser = AnswerParser()
    for start in range(0, HEAD_LIMIT, 4096):
        parser.feed(flood[start : start + 4096])
    with pytest.raises(AnswerBroken, match="more than"):
        parser.feed(flood[HEAD_LIMIT : HEAD_LIMIT + 4096])


def test_body_of_many_small_chunks_is_no_flood() -> None:
    parser, body = parse(CHUNKED, *[b"1\r\nx\r\n" * 4096] * 16, b"0\r\n\r\n")
    assert len(body) == 4096 * 16
    assert parser.reusable
