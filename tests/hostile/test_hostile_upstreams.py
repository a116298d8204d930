"""Model servers that answer with what is no answer: the client is told so, and nothing of ours breaks or swells."""

import gzip
import time
from contextlib import suppress

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_model import BODY, ScriptedModel, answer
from vitals import MIB

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
OPEN = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
MOST = 64 * MIB
"""The most that an interactive answer may have."""


def endless(start, piece, most=200 * MIB):
    """Send `piece` over and over, until nobody takes it; far more than anybody may take."""

    def script(connection):
        connection.sendall(start)
        for _ in range(most // len(piece)):
            connection.sendall(piece)
        return False

    return script


def once(data):
    def script(connection):
        connection.sendall(data)
        return False

    return script


BROKEN = {
    "nothing": once(b""),
    "no HTTP": once(b"\0" * 1000),
    "a status of no HTTP": once(b"HTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n"),
    "switching protocols": once(b"HTTP/1.1 101 X\r\n\r\n"),
    "two lengths": once(OPEN + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{} "),
    "a length and chunks": once(OPEN + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a negative length": once(OPEN + b"content-length: -1\r\n\r\n"),
    "a huge length": once(OPEN + b"content-length: 99999999999999999999999\r\n\r\n"),
    "a huge chunk": once(OPEN + b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
    "no JSON": once(answer(b"<html>")),
    "not UTF-8": once(answer(b'{"choices":["\xff"]}')),
    "half a body": once(answer(BODY)[:-20]),
    "deep": once(answer(b'{"choices":' + b"[" * 10**6 + b"]" * 10**6 + b"}")),
    "an error as deep": once(answer(b'{"error":' + b"[" * 10**5 + b"]" * 10**5 + b"}", status=400)),
    "an error of surrogates": once(answer(b'{"error":{"message":"' + b"\\ud800" * 1000 + b'"}}', status=400)),
    "an error of escapes": once(answer(b'{"error":{"message":"\\u001b]0;owned\\u0007"}}', status=400)),
    "no gzip": once(answer(b"x" * 100, headers=b"content-encoding: gzip\r\n")),
    "a bomb of gzip": once(answer(gzip.compress(b"\0" * 10**9, 9), headers=b"content-encoding: gzip\r\n")),
    "an absurd wait": once(answer(b"{}", status=429, headers=b"retry-after: 99999999999999999999\r\n")),
    "headers without end": endless(b"HTTP/1.1 200 OK\r\n", b"x: " + b"y" * 997 + b"\r\n"),
    "interim answers without end": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "a body without end": endless(OPEN + b"\r\n", b"x" * 65536),
    "chunks of one byte without end": endless(OPEN + b"transfer-encoding: chunked\r\n\r\n", b"1;" + b"e" * 100 + b"\r\nx\r\n"),
}  # fmt: skip
STREAMS = {
    "an event without end": endless(STREAM, b"x" * 65536),
    "lines without end": endless(STREAM, b"data\n" * 10_000),
    "blank lines without end": endless(STREAM + b"event: " + b"x" * MIB, b"\r" * 65536, 20 * MIB),
    "a large event": once(STREAM + b'data: {"choices":["' + b"x" * 40 * MIB + b'"]}\n\ndata: [DONE]\n\n'),
    "an event that is no JSON": once(STREAM + b"data: {\n\n"),
    "an event as deep": once(STREAM + b"data: " + b"[" * 10**6 + b"\n\n"),
    "no end": once(STREAM + b'data: {"choices":[]}\n\n'),
    "nothing": once(STREAM),
}


@pytest.fixture
def upstream(site):
    yield site.upstream
    until_it_is_back(site, site.upstream)


@pytest.mark.slow
def test_answers(site, upstream):
    for name, script in BROKEN.items():
        upstream.script = script
        before = site.vitals.forget_peak()
        with site.client() as client:
            answered = client.post("/v1/chat/completions", json=CHAT)
        print(f"{name}: {answered.status_code}, {(site.vitals.peak_memory() - before) / MIB:.0f} MiB")
        assert answered.status_code in (400, 429, 502, 503, 504), name
        assert answered.json()["error"]["code"] != "internal_error"
        assert answered.text.isprintable()
        assert site.vitals.peak_memory() - before < 2 * MOST + 16 * MIB, name
        until_it_is_back(site, upstream)


@pytest.mark.slow
def test_streams(site, upstream):
    for name, script in STREAMS.items():
        upstream.script = script
        before = site.vitals.forget_peak()
        with site.client() as client, suppress(httpx2.RemoteProtocolError):
            client.post("/v1/chat/completions", json=CHAT | {"stream": True})
        print(f"{name}: {(site.vitals.peak_memory() - before) / MIB:.0f} MiB")
        assert site.vitals.peak_memory() - before < 40 * MIB, name
        site.check()
        until_it_is_back(site, upstream)


def until_it_is_back(site, upstream):
    """Have the upstream answer well, so that the next case finds it in use."""
    upstream.script = ScriptedModel.usual
    with site.client() as client:
        deadline = time.monotonic() + 60
        while client.post("/v1/chat/completions", json=CHAT).status_code != 200:
            assert time.monotonic() < deadline, "the upstream does not come back"
            time.sleep(0.05)


def pieces():
    """Heads and bodies of answers, in any order and often broken."""
    known = st.sampled_from(
        [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 500 \r\n", b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n", b"\r\n", b"5\r\nhello\r\n",
         b"0\r\n\r\n", BODY, b"data: ", b"\n\n", b"connection: close\r\n", b"content-encoding: gzip\r\n", b": ", b"\xff", b"\0", b"content-type: text/event-stream\r\n"]
    )  # fmt: skip
    return st.lists(known | st.binary(max_size=20), max_size=12).map(b"".join)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=pieces() | pieces().map(lambda tail: b"HTTP/1.1 200 OK\r\n" + tail), stream=st.booleans())
def test_random_answers(site, upstream, data, stream):
    upstream.script = once(data)
    with site.client() as client, suppress(httpx2.RemoteProtocolError):
        answered = client.post("/v1/chat/completions", json=CHAT | {"stream": stream})
        assert answered.status_code != 500
