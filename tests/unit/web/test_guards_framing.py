"""Ambiguous framing is answered 400 once and the connection closed: request smuggling needs two readings of one request."""

import json
from collections.abc import Callable

import pytest
import trio
from front import GET, front, guard_off, post
from h11._receivebuffer import ReceiveBuffer
from trio.testing import MockClock

from fibatchd.web.guards import Limits, framing

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"


def head(*lines: str, end: str = "\r\n") -> bytes:
    return (end.join(["POST /read HTTP/1.1", "host: a", *lines]) + end + end).encode("latin-1")


AMBIGUOUS = {
    "length and coding": head("content-length: 6", "transfer-encoding: chunked") + b"0\r\n\r\n",
    "coding and length": head("transfer-encoding: chunked", "content-length: 6") + b"0\r\n\r\n",
    "two equal lengths": head("content-length: 3", "content-length: 3") + b"abc",
    "two lengths": head("content-length: 3", "content-length: 40") + b"abc",
    "list of lengths": head("content-length: 3, 3") + b"abc",
    "signed length": head("content-length: +3") + b"abc",
    "negative length": head("content-length: -3") + b"abc",
    "hexadecimal length": head("content-length: 0x3") + b"abc",
    "length with underscore": head("content-length: 1_0") + b"abc",
    "empty length": head("content-length:") + b"abc",
    "endless length": head("content-length: " + "9" * 30) + b"abc",
    "folded header": head("x-a: 1", " 2"),
    "folded by a tab": head("x-a: 1", "\t2"),
    "folded length": head("content-length:", " 3") + b"abc",
    "folded coding": head("transfer-encoding:", " chunked") + b"0\r\n\r\n",
    "first header folded": b"GET / HTTP/1.1\r\n host: a\r\n\r\n",
    "space before the colon": head("content-length : 3") + b"abc",
    "space before the coding's colon": head("transfer-encoding : chunked") + b"0\r\n\r\n",
    "coding twice": head("transfer-encoding: chunked", "transfer-encoding: chunked") + b"0\r\n\r\n",
    "coding twice, one unknown": head("transfer-encoding: chunked", "transfer-encoding: cow") + b"0\r\n\r\n",
    "unknown coding": head("transfer-encoding: xchunked") + b"0\r\n\r\n",
    "list of codings": head("transfer-encoding: gzip, chunked") + b"0\r\n\r\n",
    "identity coding": head("transfer-encoding: identity") + b"abc",
    "quoted coding": head('transfer-encoding: "chunked"') + b"0\r\n\r\n",
    "coding behind a vertical tab": head("transfer-encoding: \x0bchunked") + b"0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST /read HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare LF": head("content-length: 3", end="\n") + b"abc",
    "one bare LF": b"POST /read HTTP/1.1\r\nhost: a\ncontent-length: 3\r\n\r\nabc",
    "bare LF ends the head": b"POST /read HTTP/1.1\r\nhost: a\r\ncontent-length: 3\n\r\n" + SMUGGLED,
    "bare CR": b"POST /read HTTP/1.1\r\nhost: a\rcontent-length: 3\r\n\r\nabc",
    "NUL": head("x-a: 1\x002"),
    "no colon": head("x-a"),
    "empty name": head(": 1"),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "chunk size with a sign": head("transfer-encoding: chunked") + b"+3\r\nabc\r\n0\r\n\r\n",
    "chunk size with a prefix": head("transfer-encoding: chunked") + b"0x3\r\nabc\r\n0\r\n\r\n",
    "chunk longer than its size": head("transfer-encoding: chunked") + b"2\r\nabc\r\n0\r\n\r\n",
    "chunk ended by a bare LF": head("transfer-encoding: chunked") + b"3\nabc\r\n0\r\n\r\n",
    "chunk with a long extension": head("transfer-encoding: chunked") + b"3;" + b"x" * 5000 + b"\r\nabc\r\n0\r\n\r\n",
    "trailers ended by a bare LF": head("transfer-encoding: chunked") + b"0\r\nx-a: 1\n\n" + SMUGGLED,
    "folded trailer": head("transfer-encoding: chunked") + b"0\r\nx-a: 1\r\n 2\r\n\r\n",
    "length in a trailer": head("transfer-encoding: chunked") + b"0\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no version": b"GET /\r\nhost: a\r\n\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\nhost: a\r\n\r\n",
    "target without a path": b"GET a HTTP/1.1\r\nhost: a\r\n\r\n",
    "target that is a query": b"GET ?a HTTP/1.1\r\nhost: a\r\n\r\n",
    "tunnel": b"CONNECT a:443 HTTP/1.1\r\nhost: a\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("request_bytes", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_ambiguous_request_is_answered_400_once_and_the_connection_closed(request_bytes: bytes) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(request_bytes + SMUGGLED)
        answer = await client.answer()
        assert answer.status == 400, answer.body
        assert answer.headers["connection"] == "close"
        assert json.loads(answer.body)["error"]["type"] == "invalid_request_error"
        assert await client.rest() == b""
        assert (await server.ask()).status == 200


def h11_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing.StrictReceiveBuffer, "maybe_extract_lines", ReceiveBuffer.maybe_extract_lines)


def without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "check_lines", lambda lines: None)


@pytest.mark.parametrize(
    ("switch_off", "case"),
    [
        (without_checks, "length and coding"),
        (without_checks, "two equal lengths"),
        (without_checks, "list of lengths"),
        (without_checks, "folded header"),
        (without_checks, "chunked in HTTP/1.0"),
        (h11_as_it_comes, "bare LF"),
        (h11_as_it_comes, "trailers ended by a bare LF"),
    ],
)
async def test_without_the_guard_the_ambiguous_request_reaches_the_app(
    switch_off: Callable[[pytest.MonkeyPatch], None], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_off(monkeypatch)
    async with front() as server:
        assert (await server.ask(AMBIGUOUS[case])).status == 200


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x-a: 1\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nhost: a\r\nx-a: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n", 414),
        (b"GET / HTTP/2.0\r\nhost: a\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ],
)
async def test_request_beyond_what_is_spoken_here_is_refused(request_bytes: bytes, status: int) -> None:
    async with front() as server:
        answer = await server.ask(request_bytes)
        assert answer.status == status
        assert json.loads(answer.body)["error"]


@pytest.mark.parametrize("limits", [Limits(), guard_off(max_headers=10_000)])
async def test_headers_are_counted(limits: Limits) -> None:
    async with front(limits) as server:
        assert (await server.ask(b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x-a: 1\r\n" * 200 + b"\r\n")).status == 431


@pytest.mark.parametrize("limits", [Limits(), guard_off(max_head_bytes=1_000_000)])
async def test_head_is_measured(limits: Limits) -> None:
    async with front(limits) as server:
        assert (await server.ask(b"GET / HTTP/1.1\r\nhost: a\r\nx-a: " + b"x" * 40_000 + b"\r\n\r\n")).status == 431


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "GZIP"])
async def test_content_encoding_is_refused_with_415(coding: str) -> None:
    async with front() as server:
        answer = await server.ask(post("/read", b"abc", f"content-encoding: {coding}"))
        assert answer.status == 415
        assert answer.headers["accept-encoding"] == "identity"


async def test_identity_is_no_content_encoding() -> None:
    async with front() as server:
        assert (await server.ask(post("/read", b"abc", "content-encoding: identity"))).status == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET http://a/ HTTP/1.1\r\nhost: b\r\n\r\n",
        b"GET http://a?x=1 HTTP/1.1\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AA\r\n\r\n",
        b"\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.0\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
    ],
)
async def test_unusual_but_clear_request_is_answered(request_bytes: bytes) -> None:
    async with front() as server:
        answer = await server.ask(request_bytes)
        assert answer.status == 200
        assert json.loads(answer.body)["url"] == "http://a/"


async def test_request_that_arrives_byte_by_byte_is_read_like_one_that_does_not() -> None:
    async with front() as server:
        client = await server.client()
        for byte in head("transfer-encoding: chunked") + b"3\r\nabc\r\n0\r\nx-a: 1\r\n\r\n" + GET:
            await client.send(bytes([byte]))
        assert (await client.answer()).body == b'{"size":3}\n'
        assert (await client.answer()).status == 200


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with front() as server:
        client = await server.client()
        await client.send(b"".join(post("/read", b"x" * size) + GET for size in range(1, 20)))
        for size in range(1, 20):
            assert json.loads((await client.answer()).body) == {"size": size}
            assert (await client.answer()).status == 200


async def test_garbage_behind_a_request_spoils_only_what_comes_after() -> None:
    async with front() as server:
        client = await server.client()
        await client.send(GET + b"x")
        assert (await client.answer()).status == 200
        await client.send(b"y z\r\n\r\n")
        assert (await client.answer()).status == 400


async def test_requests_piled_up_behind_one_are_not_read_without_bound(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n")
        await server.seen.started.wait()
        sent = 0
        with trio.move_on_after(1):
            while sent < 50_000_000:
                await client.stream.send_all(GET * 1000)
                sent += len(GET) * 1000
        assert sent < 50_000_000
