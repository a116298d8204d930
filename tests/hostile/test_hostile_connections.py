"""Connections that are made to harm: ambiguous framing, floods, paths with tricks in them, clients that hold on and say nothing.

What each guard does in detail, with a clock of the test's own, is in tests/unit/web; here a whole daemon meets it.
"""

import resource
import select
import time
from contextlib import ExitStack, suppress

import pytest
from hostile_site import eventually, until_closed
from vitals import MIB

HEAD = b"GET /v1/models HTTP/1.1\r\nhost: a\r\nx-api-key: %b\r\n"
POST = b"POST /v1/batches HTTP/1.1\r\nhost: a\r\nx-api-key: %b\r\n"
SECOND = b"GET /v1/smuggled HTTP/1.1\r\nhost: a\r\n\r\n"

SMUGGLING = {
    "both lengths": b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "two lengths": b"content-length: 0\r\ncontent-length: 44\r\n\r\n" + SECOND,
    "a list of lengths": b"content-length: 0, 0\r\n\r\n" + SECOND,
    "a signed length": b"content-length: +0\r\n\r\n" + SECOND,
    "a coding besides chunked": b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "chunked twice": b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "chunked with a tab": b"transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + SECOND,
    "a space before the colon": b"content-length : 5\r\n\r\n" + SECOND,
    "a folded line": b"x-a: b\r\n content-length: 5\r\n\r\n" + SECOND,
    "a bare LF": b"x-a: b\ncontent-length: 5\r\n\r\n" + SECOND,
    "a bare CR": b"x-a: b\rcontent-length: 5\r\n\r\n" + SECOND,
    "a NUL": b"x-a: \0\r\n\r\n" + SECOND,
    "a chunk of no number": b"transfer-encoding: chunked\r\n\r\n0x0\r\n\r\n" + SECOND,
    "a chunk that ends in a bare LF": b"transfer-encoding: chunked\r\n\r\n0\n\r\n" + SECOND,
    "a long chunk extension": b"transfer-encoding: chunked\r\n\r\n0;" + b"x" * 100_000 + b"\r\n\r\n" + SECOND,
    "a length in the trailer": b"transfer-encoding: chunked\r\n\r\n0\r\ncontent-length: 5\r\ntransfer-encoding: x\r\n\r\n" + SECOND,
    "many headers": b"x: y\r\n" * 10_000 + b"\r\n" + SECOND,
    "a long header": b"x: " + b"y" * 1_000_000 + b"\r\n\r\n" + SECOND,
}  # fmt: skip
PATHS = [
    "/v1/batches/%2e%2e", "/v1/batches/..%2f..%2fetc", "/v1/batches/..;/x", "/v1/batches/%00", "//v1/batches", "/v1//batches",
    "/v1/files/..%2f..%2f..%2fetc%2fpasswd/content", "/v1/files/%2e%2e/content", "/console/..%2f..%2fsign_in.py", "/console/%2e%2e/settings.py",
    "/v1/batches/batch_%0d%0aset-cookie:%20a", "/v1/batches/" + "a" * 8000, "/v1/batches/%ff%fe", "/v1/batches/%", "/v1/batches?limit=" + "9" * 5000,
    "/v1/batches?after=%00", "/v1/files?after=%ff&order=%00", "/v1/batches?limit=1e9", "/v1/batch_webhook/events?after=';--", "/v1/batches/\x7f",
]  # fmt: skip


def sent(site, data):
    """Send bytes, all at once, and return all that comes."""
    with site.connect() as connection:
        with suppress(ConnectionError):
            connection.sendall(data)
        connection.settimeout(60)
        return until_closed(connection)


@pytest.mark.parametrize("name", SMUGGLING)
def test_no_second_request_is_smuggled_in(site, name):
    answer = sent(site, POST % site.key.encode() + SMUGGLING[name])
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()


def test_paths(site):
    for path in PATHS:
        answer = sent(
            site, f"GET {path} HTTP/1.1\r\nhost: a\r\nx-api-key: {site.key}\r\nconnection: close\r\n\r\n".encode()
        )
        status = int(answer[9:12])
        assert 400 <= status < 500, (path, answer[:300])
        assert b"root:" not in answer
        assert b"set-cookie" not in answer.lower()


@pytest.mark.slow
def test_two_thousand_idle_connections(site):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 8192), hard))
    before = site.vitals.look(0)
    with ExitStack() as stack:
        held = [stack.enter_context(site.connect()) for _ in range(2000)]
        for connection in held:
            connection.sendall(HEAD % site.key.encode() + b"\r\n")
        for connection in held:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        during = site.vitals.look(0)
        site.check()
    print(f"{(during.memory - before.memory) / 2000 / 1024:.1f} KiB a connection")
    assert during.descriptors >= before.descriptors + 2000
    assert during.memory - before.memory < 2000 * 64 * 1024
    assert eventually(lambda: site.vitals.look(0).descriptors <= before.descriptors + 5)


def test_heads_that_never_end(site):
    """A hundred clients of a byte at a time: each is sent away when its time, two seconds here, is over."""
    before = site.vitals.look(0)
    with ExitStack() as stack:
        slow = [stack.enter_context(site.connect()) for _ in range(100)]
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\nx: ")
        site.check()
        for connection in slow:
            assert b" 408 " in until_closed(connection)
    assert eventually(lambda: site.vitals.look(0).descriptors <= before.descriptors + 5)


@pytest.mark.torture
def test_bodies_that_never_end(site):
    """A hundred bodies of a byte a second, of creates and of uploads: each is sent away after its window of 30 s; others are
    served meanwhile."""
    before = site.vitals.look(0)
    forms = [
        b"/v1/files HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=b",
        b"/v1/batches HTTP/1.1\r\naccept: */*",
    ]
    head = b"POST %b\r\nhost: a\r\nx-api-key: %b\r\ncontent-length: 100000\r\n\r\n"
    deadline = time.monotonic() + 120
    with ExitStack() as stack:
        slow = [stack.enter_context(site.connect()) for _ in range(100)]
        for number, connection in enumerate(slow):
            connection.sendall(head % (forms[number % 2], site.key.encode()))
        while slow:
            assert time.monotonic() < deadline
            site.check()
            for connection in select.select(slow, [], [], 1)[0]:
                assert b" 408 " in until_closed(connection)
                slow.remove(connection)
            for connection in slow:
                connection.sendall(b"-")
    assert eventually(lambda: site.vitals.look(0).descriptors <= before.descriptors + 5)


def test_bodies_that_are_announced_and_do_not_come(site):
    """They hold no memory, and what they announce is given back when they leave."""
    head = POST % site.key.encode() + b"content-length: %d\r\n\r\n{" % (30 * MIB)
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(site.connect()).sendall(head)
        site.check()
    with site.client() as client:
        assert eventually(lambda: client.post("/v1/batches", content=b"{}").status_code == 400)
