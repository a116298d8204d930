"""The answer parser without sockets: recorded, hand-made, cut, broken and mutated answers."""

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_server import RECORDED, read_with_h11

from fibatchd.errors import AnswerBroken
from fibatchd.upstream.parser import HEAD_LIMIT, AnswerParser

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


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


# name: (bytes, status, body, complete, reusable)
GOOD = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, True),
    "length zero": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b"", True, True),
    "leading zeros in the length": (b"HTTP/1.1 200 OK\r\nContent-Length: 002\r\n\r\nhi", 200, b"hi", True, True),
    "no reason phrase": (b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", 200, b"", True, True),
    "reason phrase in Latin-1": (b"HTTP/1.1 400 Schl\xe4cht\r\nContent-Length: 0\r\n\r\n", 400, b"", True, True),
    "blank lines before": (b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b"", True, True),
    "unknown status": (b"HTTP/1.1 799 ?\r\nContent-Length: 0\r\n\r\n", 799, b"", True, True),
    "redirect": (b"HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 302, b"", True, True),
    "chunked": (CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", 200, b"hi", True, True),
    "chunked, many": (CHUNKED + b"1\r\nh\r\n00001\r\ni\r\nA\r\n0123456789\r\n0\r\n\r\n", 200, b"hi0123456789", True, True),
    "chunked, empty": (CHUNKED + b"0\r\n\r\n", 200, b"", True, True),
    "chunked, trailers": (CHUNKED + b"2\r\nhi\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n", 200, b"hi", True, True),
    "chunked, extension": (CHUNKED + b'2;a=b;c="d"\r\nhi\r\n0;e\r\n\r\n', 200, b"hi", True, True),
    "chunked in capitals": (CHUNKED.replace(b"chunked", b"CHUNKED") + b"2\r\nhi\r\n0\r\n\r\n", 200, b"hi", True, True),
    "close-delimited": (b"HTTP/1.1 200 OK\r\n\r\nhi", 200, b"hi", False, False),
    "close-delimited, empty": (b"HTTP/1.1 200 OK\r\n\r\n", 200, b"", False, False),
    "close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, False),
    "close among others": (
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, Close\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, False),
    "1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, False),
    "1.0 keep-alive": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, True),
    "1.0 close-delimited": (b"HTTP/1.0 200 OK\r\n\r\nhi", 200, b"hi", False, False),
    "continue": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, True),
    "interim answers": (
        b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 Early\r\nLink: </x>\r\nContent-Encoding: br\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, True),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True, True),
    "no content, with a length": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, b"", True, True),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b"", True, True),
    "upgrade offered": (
        b"HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, True),
    "identity": (b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, True),
    "empty though encoded": (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", 200, b"", True, True),
}  # fmt: skip

BROKEN = {
    "nothing like HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "HTML": b"<html><body>Bad gateway</body></html>",
    "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x46",
    "NUL first": b"\0HTTP/1.1 200 OK\r\n\r\n",
    "space first": b" HTTP/1.1 200 OK\r\n\r\n",
    "lower case": b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "a request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.10": b"HTTP/1.10 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no status": b"HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    "status under 100": b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
    "status no number": b"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
    "negative status": b"HTTP/1.1 -20 OK\r\nContent-Length: 0\r\n\r\n",
    "two spaces": b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
    "no space after the status": b"HTTP/1.1 200OK\r\nContent-Length: 0\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    "switching to nothing": b"HTTP/1.1 101 S\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "bare LF in headers": b"HTTP/1.1 200 OK\r\nX: y\nContent-Length: 0\r\n\r\n",
    "bare CR in a value": b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n",
    "folded header": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "folded with a tab": b"HTTP/1.1 200 OK\r\nX: a\r\n\tb\r\nContent-Length: 0\r\n\r\n",
    "fold before any header": b"HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 0\r\n\r\n",
    "NUL in a value": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
    "NUL in a name": b"HTTP/1.1 200 OK\r\nX\0: a\r\nContent-Length: 0\r\n\r\n",
    "control character": b"HTTP/1.1 200 OK\r\nX: a\x01\r\nContent-Length: 0\r\n\r\n",
    "DEL in a value": b"HTTP/1.1 200 OK\r\nX: a\x7f\r\nContent-Length: 0\r\n\r\n",
    "space before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    "space in a name": b"HTTP/1.1 200 OK\r\nX Y: a\r\nContent-Length: 0\r\n\r\n",
    "no name": b"HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 0\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nnothing\r\nContent-Length: 0\r\n\r\n",
    "name in Latin-1": b"HTTP/1.1 200 OK\r\nX\xe4: a\r\nContent-Length: 0\r\n\r\n",
    "lengths that differ": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
    "length twice": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
    "list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi",
    "length signed": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi",
    "length negative": b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi",
    "length hexadecimal": b"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nhi",
    "length fractional": b"HTTP/1.1 200 OK\r\nContent-Length: 2.0\r\n\r\nhi",
    "length with a space": b"HTTP/1.1 200 OK\r\nContent-Length: 1 2\r\n\r\nhi",
    "length empty": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhi",
    "length over 64 bits": b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nhi",
    "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "gzip, chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked, gzip": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "xchunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "transfer coding of nothing": b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
    "transfer coding identity": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhi",
    "1.0 chunked": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk size no number": CHUNKED + b"xyz\r\nhi\r\n0\r\n\r\n",
    "chunk size empty": CHUNKED + b"\r\nhi\r\n0\r\n\r\n",
    "chunk size negative": CHUNKED + b"-2\r\nhi\r\n0\r\n\r\n",
    "chunk size prefixed": CHUNKED + b"0x2\r\nhi\r\n0\r\n\r\n",
    "chunk size with a space": CHUNKED + b"2 \r\nhi\r\n0\r\n\r\n",
    "chunk size after a space": CHUNKED + b" 2\r\nhi\r\n0\r\n\r\n",
    "chunk size over 64 bits": CHUNKED + b"10000000000000000\r\nhi\r\n0\r\n\r\n",
    "chunk size with bare LF": CHUNKED + b"2\nhi\r\n0\r\n\r\n",
    "chunk longer than said": CHUNKED + b"2\r\nhi!\r\n0\r\n\r\n",
    "chunk shorter than said": CHUNKED + b"4\r\nhi\r\n0\r\n\r\n",
    "chunk ends with LF": CHUNKED + b"2\r\nhi\n0\r\n\r\n",
    "NUL in a chunk extension": CHUNKED + b"2;a=\0\r\nhi\r\n0\r\n\r\n",
    "trailer without a name": CHUNKED + b"0\r\n: x\r\n\r\n",
    "bare LF in trailers": CHUNKED + b"0\r\nX: y\n\r\n",
    "length in trailers": CHUNKED + b"0\r\nContent-Length: 2\r\n\r\n",
    "content coding br": b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nhi",
    "content codings in a row": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: 2\r\n\r\nhi",
    "not gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi",
}


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


def test_answer_to_head_ends_with_its_headers() -> None:
    parser, body = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nContent-Encoding: gzip\r\n\r\n", bodyless=True)
    assert parser.complete
    assert body == b""
    assert not parser.reusable  # llhttp still waits for the 500 bytes


def test_headers_are_lower_case_trimmed_and_joined() -> None:
    parser, _ = parse(
        b"HTTP/1.1 429 X\r\nRetry-After: \t7 \t\r\nVary: a\r\nX-Empty:\r\nVARY: b\r\nContent-Length: 0\r\n\r\n"
    )
    assert parser.headers == {b"retry-after": b"7", b"vary": b"a, b", b"x-empty": b"", b"content-length": b"0"}


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
