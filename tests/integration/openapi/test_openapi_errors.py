"""Every error of every route has the shape that the API's description says, wherever it is made: by the view, by the app, or
below the app, where the request is not one yet. Answers to what no route has have the shape of the API that the path is in."""

import re
from contextlib import AsyncExitStack
from functools import partial

import pytest
import trio
import trio.testing
from api import serving
from oracle import oracle

from fibatchd.store import accounts
from fibatchd.web.guards import Limits
from fibatchd.web.openapi import Operation
from fibatchd.web.server import serve

ORACLE = oracle()
ALL = sorted(ORACLE.operations)
PRIVATE = [operation for operation in ALL if ORACLE.operations[operation].get("security") != []]

LONG = b"x" * 40_000

# What is wrong -> (what stands behind the path, the version, further lines of the head).
BROKEN = {
    "a length that is none": (400, b"", b"1.1", b"content-length: x\r\n"),
    "two framings": (400, b"", b"1.1", b"content-length: 1\r\ntransfer-encoding: chunked\r\n"),
    "a folded line": (400, b"", b"1.1", b"x-a: 1\r\n 2\r\n"),
    "a body too large": (413, b"", b"1.1", b"content-length: 99999999999\r\n"),
    "a target too long": (414, b"?" + LONG, b"1.1", b""),
    "a coding": (415, b"", b"1.1", b"content-encoding: gzip\r\n"),
    "many headers": (431, b"", b"1.1", b"x-a: 1\r\n" * 200),
    "a long header": (431, b"", b"1.1", b"x-a: " + LONG + b"\r\n"),
    "another version": (505, b"", b"1.9", b""),
}


def path_of(operation):
    """A path of the operation; what it names need not exist."""
    return re.sub(r"\{\w+\}", "x", operation.path)


async def ask(port, head):
    """Send bytes and return the answer: status, headers, body."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(head)
        return parsed(b"".join([part async for part in stream]))


def parsed(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(status.split(" ")[1]), headers, body


def plain(operation, *lines, end="\r\n", behind="", version="1.1"):
    head = f"{operation.method} {path_of(operation)}{behind} HTTP/{version}\r\nhost: a\r\nconnection: close\r\n"
    return (head + "".join(f"{line}\r\n" for line in lines) + end).encode()


def check(operation, expected, answer, what=""):
    status, headers, body = answer
    assert status == expected, (what, operation, status, body[:300])
    assert list(ORACLE.problems(operation, status, headers, body)) == [], (what, operation, body[:300])


@pytest.fixture
async def api(tmp_path):
    async with serving(tmp_path) as served:
        yield served


async def test_below_the_app(api):
    for what, (status, behind, version, lines) in BROKEN.items():
        for operation in ALL:
            line = b"%s %s%s HTTP/%s\r\n" % (operation.method.encode(), path_of(operation).encode(), behind, version)
            answer = await ask(api.port, line + b"host: a\r\n" + lines + b"\r\n")
            check(operation, status, answer, what)


async def test_too_slow(tmp_path):
    async with serving(tmp_path, limits=Limits(head_s=0.3, body_window_s=0.3)) as api:

        async def late(operation, head):
            check(operation, 408, await ask(api.port, head))

        async with trio.open_nursery() as nursery:
            for operation in ALL:
                nursery.start_soon(late, operation, plain(operation, end=""))


async def test_the_server_stops(api):
    """Connections that are open go on for a while, and whatever they ask is refused."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    shutdown, drained = trio.Event(), trio.Event()
    running = partial(serve, api.app, listeners, shutdown=shutdown, drained=drained, error_body=api.app.error_body)
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        await nursery.start(running)
        streams = {}
        for operation in ALL:
            stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
            await stream.send_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
            await stream.receive_some(65536)
            streams[operation] = stream
        shutdown.set()
        await trio.testing.wait_all_tasks_blocked()
        for operation, stream in streams.items():
            await stream.send_all(plain(operation))
            check(operation, 503, parsed(b"".join([part async for part in stream])))
        drained.set()


async def test_without_a_key(api):
    for operation in PRIVATE:
        check(operation, 401, await ask(api.port, plain(operation)))


async def test_a_key_of_nobodys(api):
    for operation in PRIVATE[::2]:  # not all: how often this may be tried is limited
        check(operation, 401, await ask(api.port, plain(operation, f"x-api-key: hyi-{'a' * 43}")))


async def test_a_suspended_account(api):
    bob = await api.owner()
    await api.context.store.write(accounts.set_account_status, bob.account.id, "suspended")
    for operation in PRIVATE:
        check(operation, 403, await ask(api.port, plain(operation, f"x-api-key: {bob.secret}")))


async def test_the_store_is_gone(api):
    api.store.down = True
    for operation in PRIVATE:
        check(operation, 503, await ask(api.port, plain(operation, f"x-api-key: {api.ada.secret}")))


async def test_a_fault(api, monkeypatch):
    async def broken(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(api.store, "read", broken)
    for operation in PRIVATE:
        answer = await ask(api.port, plain(operation, f"x-api-key: {api.ada.secret}"))
        check(operation, 500, answer)
        assert b"secret" not in answer[2]


def at(path):
    """An operation of the path, as whose 400 any other answer is checked for its shape."""
    return next(operation for operation in ALL if operation.path == path)


async def test_another_method(api):
    for path in sorted({operation.path for operation in ALL}):
        status, headers, body = await ask(api.port, plain(Operation("BREW", path)))
        assert status == 405
        assert {operation.method for operation in ALL if operation.path == path} <= set(headers["allow"].split(", "))
        check(at(path), 400, (400, headers, body))


@pytest.mark.parametrize(
    ("path", "api_of"),
    [
        ("/", "/v1/batches"),
        ("/v1", "/v1/batches"),
        ("/v2/batches", "/v1/batches"),
        ("/v1/batches/", "/v1/batches"),
        ("/v1/batches//", "/v1/batches"),
        ("/v1/messages/x", "/v1/messages"),
        ("/v1/messages/", "/v1/messages"),
        ("/anthropic", "/v1/messages"),
        ("/anthropic/v1/x", "/v1/messages"),
        ("/v1/messages/batches/x/y", "/v1/messages"),
    ],
)
async def test_nothing_there(api, path, api_of):
    status, headers, body = await ask(api.port, plain(Operation("GET", path)))
    assert status == 404
    # Anthropic's errors tell their status in words.
    check(at(api_of), 400, (400, headers, body.replace(b"not_found_error", b"invalid_request_error")))
