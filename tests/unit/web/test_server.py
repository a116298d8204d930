"""Starting, draining, stopping; TLS; what handlers learn of the client."""

import json
import resource
import socket
import ssl
from pathlib import Path

import pytest
import trio
import trustme
from front import GET, Client, front
from shown_app import make_app
from trio.testing import MockClock, wait_all_tasks_blocked

from fibatchd.web.guards import Limits
from fibatchd.web.listeners import open_listeners
from fibatchd.web.server import Tls, serve

WAIT = b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n"


async def test_shutdown_closes_the_listener_and_idle_connections_at_once(autojump_clock: MockClock) -> None:
    async with front() as server:
        idle = await server.client()
        await idle.send(GET)
        await idle.answer()
        start = trio.current_time()
        server.shutdown.set()
        assert await idle.rest() == b""
        with pytest.raises(OSError, match="connect"):
            await server.client()
    assert trio.current_time() == start


async def test_running_request_is_answered_and_its_connection_closed(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(WAIT)
        await server.seen.started.wait()
        server.shutdown.set()
        await trio.sleep(1)
        server.seen.go_on.set()
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.rest() == b""


async def test_running_request_is_cut_at_the_end_of_the_grace_period(autojump_clock: MockClock) -> None:
    start = trio.current_time()
    async with front(grace_s=7) as server:
        client = await server.client()
        await client.send(WAIT)
        await server.seen.started.wait()
        server.shutdown.set()
        assert await client.rest() == b""
        assert server.seen.ended.is_set()
    assert trio.current_time() - start == pytest.approx(7, abs=0.1)


async def test_stream_to_a_client_that_does_not_read_is_cut_with_the_grace_period(autojump_clock: MockClock) -> None:
    start = trio.current_time()
    async with front(Limits(send_s=1000), grace_s=7) as server:
        client = await server.client()
        await client.send(b"GET /stream HTTP/1.1\r\nhost: a\r\n\r\n")
        await client.head()
        server.shutdown.set()
        await server.seen.ended.wait()
    assert trio.current_time() - start == pytest.approx(7, abs=0.1)


async def test_kept_alive_connection_is_told_503_while_others_run(autojump_clock: MockClock) -> None:
    async with front() as server:
        kept, running = await server.client(), await server.client()
        await kept.send(GET)
        await kept.answer()
        await running.send(WAIT)
        await server.seen.started.wait()
        server.shutdown.set()
        await trio.sleep(1)
        await kept.send(GET)
        answer = await kept.answer()
        assert (answer.status, answer.headers["connection"], answer.headers["retry-after"]) == (503, "close", "1")
        assert await kept.rest() == b""
        server.seen.go_on.set()
        assert (await running.answer()).status == 200


async def test_kept_alive_connection_is_told_503_while_the_caller_drains(autojump_clock: MockClock) -> None:
    drained = trio.Event()
    async with front(drained=drained) as server:
        kept, silent = await server.client(), await server.client()
        for client in (kept, silent):
            await client.send(GET)
            await client.answer()
        server.shutdown.set()
        await trio.sleep(2)
        await kept.send(GET)
        assert (await kept.answer()).status == 503
        drained.set()
        assert await silent.rest() == b""


async def test_request_behind_a_running_one_is_not_begun_while_draining() -> None:
    async with front() as server:
        client = await server.client()
        await client.send(WAIT + GET)
        await server.seen.started.wait()
        server.shutdown.set()
        await wait_all_tasks_blocked()
        server.seen.go_on.set()
        assert (await client.answer()).status == 200
        assert await client.rest() == b""


async def test_connection_that_was_just_accepted_does_not_hold_the_shutdown_up(autojump_clock: MockClock) -> None:
    async with front() as server:
        start = trio.current_time()
        with socket.create_connection(("127.0.0.1", server.port)) as fresh:
            await trio.lowlevel.checkpoint()
            server.shutdown.set()
            fresh.setblocking(False)
            await trio.lowlevel.wait_readable(fresh)
    assert trio.current_time() == start


async def test_client_that_lingers_does_not_hold_the_shutdown_up(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(GET.replace(b"host", b" host"))
        await client.answer()
        start = trio.current_time()
    assert trio.current_time() == start


async def test_cancelled_server_leaves_nothing_behind() -> None:
    app = make_app()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: serve(app, listeners, shutdown=trio.Event()))
            stream = await trio.testing.open_stream_to_socket_listener(listeners[0])
            client = Client(stream)
            await client.send(WAIT)
            await app.seen.started.wait()
            scope.cancel()
    assert app.seen.ended.is_set()
    await stream.aclose()


async def test_app_is_started_before_and_stopped_after_its_requests() -> None:
    app = make_app()
    events = []

    @app.before_serving
    async def start() -> None:
        events.append("start")

    @app.after_serving
    async def stop() -> None:
        events.append("stop")

    async with front(app=app) as server:
        assert (await server.ask()).status == 200
        assert events == ["start"]
    assert events == ["start", "stop"]


async def test_app_that_cannot_start_stops_the_server() -> None:
    app = make_app()

    @app.before_serving
    async def start() -> None:
        raise RuntimeError("no database")

    with pytest.raises(ExceptionGroup) as caught:
        async with front(app=app):
            pass
    assert "no database" in repr(caught.value.exceptions)


class Authority:
    """A certificate authority, and server certificates by it in files."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.files = folder / "cert.pem", folder / "key.pem"

    def write(self, name: str) -> None:
        issued = self.ca.issue_cert(name)
        issued.private_key_pem.write_to_path(self.files[1])
        self.files[0].write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))

    async def client(self, port: int, name: str) -> Client:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=context, https_compatible=True)
        stream = trio.SSLStream(stream.transport_stream, context, server_hostname=name, https_compatible=True)
        await stream.do_handshake()
        return Client(stream)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority(tmp_path)
    authority.write("old.test")
    return authority


async def test_tls_requests_are_answered(authority: Authority) -> None:
    async with front(tls=Tls(*authority.files)) as server:
        client = await authority.client(server.port, "old.test")
        async with client.stream:
            for _ in range(3):
                await client.send(GET)
                assert json.loads((await client.answer()).body)["url"] == "https://a/"
            await client.send(GET.replace(b"host", b" host"))
            assert (await client.answer()).status == 400


async def test_certificate_is_swapped_for_new_connections(authority: Authority) -> None:
    tls = Tls(*authority.files)
    async with front(tls=tls) as server:
        before = await authority.client(server.port, "old.test")
        authority.write("new.test")
        tls.replace_by(Tls(*authority.files))
        after = await authority.client(server.port, "new.test")
        async with before.stream, after.stream:
            for client in (before, after):
                await client.send(GET)
                assert (await client.answer()).status == 200


async def test_handshake_that_never_comes_ends_the_connection(authority: Authority, autojump_clock: MockClock) -> None:
    async with front(tls=Tls(*authority.files)) as server:
        silent = await server.client()
        await silent.send(b"\x16\x03\x01")
        start = trio.current_time()
        assert await silent.rest() == b""
        assert trio.current_time() - start == pytest.approx(10, abs=0.1)
        talks_http = await server.client()
        await talks_http.send(GET)
        assert b"HTTP" not in await talks_http.rest()


FORWARDED = b"GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.7\r\nx-forwarded-proto: https\r\nx-forwarded-host: api.test\r\n\r\n"


async def test_handlers_see_the_client_behind_a_trusted_proxy() -> None:
    async with front(trusted_proxies=["127.0.0.0/8"]) as server:
        told = json.loads((await server.ask(FORWARDED)).body)
        assert (told["remote"], told["url"]) == ("192.0.2.7", "https://api.test/")
        told = json.loads((await server.ask()).body)
        assert (told["remote"], told["url"]) == ("127.0.0.1", "http://a/")


async def test_handlers_do_not_believe_anyone_else() -> None:
    async with front(trusted_proxies=["192.0.2.0/24", "unix:"]) as server:
        told = json.loads((await server.ask(FORWARDED)).body)
        assert (told["remote"], told["url"]) == ("127.0.0.1", "http://a/")


async def test_what_clients_are_held_to_may_change_while_it_serves() -> None:
    async with front() as server:
        assert json.loads((await server.ask(FORWARDED)).body)["remote"] == "127.0.0.1"
        open_before = await server.client()
        await open_before.send(GET)
        assert (await open_before.answer()).status == 200
        server.serving.hold_to(Limits(max_body_bytes=1), ["127.0.0.0/8"], 5)
        assert json.loads((await server.ask(FORWARDED)).body)["remote"] == "192.0.2.7"
        await open_before.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n")
        assert (await open_before.answer()).status == 413


async def test_unix_socket_is_served_without_tls(tmp_path: Path, authority: Authority) -> None:
    path = tmp_path / "api.sock"
    async with trio.open_nursery() as nursery:
        shutdown = trio.Event()
        listeners = await open_listeners([f"unix:{path}"])
        nursery.start_soon(
            lambda: serve(
                make_app(), listeners, shutdown=shutdown, tls=Tls(*authority.files), trusted_proxies=["unix:"]
            )
        )
        client = Client(await trio.open_unix_socket(str(path)))
        async with client.stream:
            await client.send(FORWARDED)
            assert json.loads((await client.answer()).body)["remote"] == "192.0.2.7"
        left = Client(await trio.open_unix_socket(str(path)))
        await left.send(GET)
        await left.stream.aclose()
        shutdown.set()


async def test_open_files_are_allowed_for_as_many_connections_as_may_come() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        async with front(Limits(max_connections=1000)):
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(2000, before[1]), before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
