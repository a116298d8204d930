"""The upstream client over real sockets: what it sends, what it hands out, and its limits."""

import gzip
import socket
from pathlib import Path

import pytest
import trio
from scripted_server import Peer, answer_once, answer_with, scripted_server

from fibatchd import __version__
from fibatchd.errors import AnswerTimeout, AnswerTooLarge, ConnectFailed, ConnectionLost
from fibatchd.upstream.client import UpstreamClient

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
BIG = b"x" * (8 << 20)  # more than the kernel's buffers of both sides take


async def test_request_on_the_wire() -> None:
    seen = []

    async def script(peer: Peer) -> None:
        while (request := await peer.request()) is not None:
            seen.append(request)
            await peer.send(OK)

    async with scripted_server(script) as server:
        headers = {"Authorization": "Bearer key", "Content-Type": "application/json; charset=utf-8"}
        client = UpstreamClient(server.url + "/v1/", headers=headers, max_connections=1)
        await client.request("POST", "/chat?x=1", b'{"a":1}', headers=[("X-Id", "7")], timeout=5, max_body=99)
        await client.request("GET", "/models", timeout=5, max_body=99)
        await client.aclose()

    post, body = seen[0]
    assert (post.method, post.target, body) == (b"POST", b"/v1/chat?x=1", b'{"a":1}')
    assert dict(post.headers) == {
        b"host": server.url.removeprefix("http://").encode(),
        b"user-agent": b"fibatchd/" + __version__.encode(),
        b"accept-encoding": b"identity",
        b"content-type": b"application/json; charset=utf-8",
        b"authorization": b"Bearer key",
        b"x-id": b"7",
        b"content-length": b"7",
    }
    assert len(dict(post.headers)) == len(list(post.headers))
    get, body = seen[1]
    assert (get.method, get.target, body) == (b"GET", b"/v1/models", b"")


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST\r\n", "/", []),
        ("", "/", []),
        ("post", "/", []),
        ("POST", "", []),
        ("POST", "chat", []),
        ("POST", "/a b", []),
        ("POST", "/ HTTP/1.1\r\nX: y", []),
        ("POST", "/bücher", []),
        ("POST", "/", [("X", "a\r\nY: b")]),
        ("POST", "/", [("X", "a\0")]),
        ("POST", "/", [("X", "漢")]),
        ("POST", "/", [("X Y", "a")]),
        ("POST", "/", [("X:", "a")]),
        ("POST", "/", [("", "a")]),
        ("POST", "/", [("Content-Length", "3")]),
        ("POST", "/", [("transfer-encoding", "chunked")]),
        ("POST", "/", [("Host", "other")]),
    ],
)
async def test_what_would_break_the_framing_is_never_sent(
    method: str, path: str, headers: list[tuple[str, str]]
) -> None:
    async with scripted_server(answer_with(OK)) as server:
        client = UpstreamClient(server.url, max_connections=1)
        with pytest.raises(ValueError, match="malformed"):
            await client.request(method, path, headers=headers, timeout=5, max_body=99)
        assert server.accepted == 0


def test_constant_headers_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match="malformed"):
        UpstreamClient("http://x", headers={"authorization": "Bearer a\r\nb"}, max_connections=1)


async def test_answer_is_handed_out_whatever_its_status() -> None:
    answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nwait"
    async with scripted_server(answer_with(answer)) as server:
        client = UpstreamClient(server.url, max_connections=1)
        got = await client.request("POST", "/", timeout=5, max_body=99)
        assert (got.status, got.body, got.header(b"retry-after"), got.header(b"x")) == (429, b"wait", b"7", None)
        await client.aclose()


async def test_redirect_is_not_followed() -> None:
    redirect = b"HTTP/1.1 307 T\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    async with scripted_server(answer_once(redirect)) as server:
        client = UpstreamClient(server.url, max_connections=1)
        assert (await client.request("POST", "/", b"{}", timeout=5, max_body=99)).status == 307
        assert server.accepted == 1
        await client.aclose()


async def test_answer_to_head() -> None:
    async with scripted_server(answer_with(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")) as server:
        client = UpstreamClient(server.url, max_connections=1)
        for _ in range(2):
            assert (await client.request("HEAD", "/", timeout=5, max_body=0)).body == b""
        await client.aclose()


async def test_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "model server.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        async with trio.open_nursery() as nursery:

            async def handle(stream: trio.SocketStream) -> None:
                request = await Peer(stream, 0, stream.socket).request()
                assert request is not None
                assert request[0].target == b"/v1/x"
                await stream.send_all(OK)
                await stream.aclose()

            await nursery.start(trio.serve_listeners, handle, [listener])
            url = "http+unix://" + str(path).replace("/", "%2F").replace(" ", "%20") + "/v1"
            client = UpstreamClient(url, max_connections=1)
            assert (await client.request("GET", "/x", timeout=5, max_body=99)).body == b"{}"
            await client.aclose()
            nursery.cancel_scope.cancel()


async def test_ipv6() -> None:
    async with trio.open_nursery() as nursery:

        async def handle(stream: trio.SocketStream) -> None:
            await stream.receive_some(65536)
            await stream.send_all(OK)
            await stream.aclose()

        try:
            (listener,) = await trio.open_tcp_listeners(0, host="::1")
        except OSError:
            pytest.skip("no IPv6 on this machine")
        await nursery.start(trio.serve_listeners, handle, [listener])
        client = UpstreamClient(f"http://[::1]:{listener.socket.getsockname()[1]}", max_connections=1)
        assert (await client.request("GET", "/", timeout=5, max_body=99)).status == 200
        await client.aclose()
        nursery.cancel_scope.cancel()


class TestNoConnection:
    """ConnectFailed says that nothing was sent."""

    async def test_refused(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        client = UpstreamClient(f"http://127.0.0.1:{port}", max_connections=1)
        with pytest.raises(ConnectFailed, match="refused"):
            await client.request("GET", "/", timeout=5, max_body=99)

    async def test_no_such_socket(self, tmp_path: Path) -> None:
        client = UpstreamClient("http+unix://" + str(tmp_path / "x").replace("/", "%2F"), max_connections=1)
        with pytest.raises(ConnectFailed):
            await client.request("GET", "/", timeout=5, max_body=99)

    async def test_name_not_found(self) -> None:
        class Resolver(trio.abc.HostnameResolver):
            async def getaddrinfo(self, *_: object) -> list[object]:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

            getnameinfo = None

        trio.socket.set_custom_hostname_resolver(Resolver())
        with pytest.raises(ConnectFailed, match="not known"):
            await UpstreamClient("http://vllm.test", max_connections=1).request("GET", "/", timeout=5, max_body=99)

    async def test_handshake_never_ends(self, autojump_clock: trio.testing.MockClock) -> None:
        async with scripted_server(Peer.wait_closed) as server:
            client = UpstreamClient(server.url.replace("http:", "https:"), max_connections=1, connect_timeout=10)
            start = trio.current_time()
            with pytest.raises(ConnectFailed, match="within 10 s"):
                await client.request("GET", "/", timeout=1, max_body=99)
            assert trio.current_time() == pytest.approx(start + 10)

    async def test_first_write_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The server ended the connection between its opening and the first byte."""
        ours, theirs = socket.socketpair()
        theirs.close()

        async def connect(*_: object) -> socket.socket:
            await trio.lowlevel.checkpoint()
            return ours

        monkeypatch.setattr("fibatchd.upstream.origin.Origin.connect", connect)
        client = UpstreamClient("http://x", max_connections=1)
        with pytest.raises(ConnectFailed):
            await client.request("POST", "/", b"{}", timeout=5, max_body=99)
        assert ours.fileno() == -1


class TestBigRequest:
    async def test_is_sent_whole(self) -> None:
        async def script(peer: Peer) -> None:
            while (request := await peer.request()) is not None:
                assert request[1] == BIG
                await peer.send(OK)

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            for _ in range(2):
                assert (await client.request("POST", "/", BIG, timeout=60, max_body=99)).status == 200
            assert server.accepted == 1
            await client.aclose()

    @pytest.mark.parametrize("with_reset", [False, True])
    async def test_answer_that_comes_before_it_is_sent_is_read(self, with_reset: bool) -> None:
        refusal = b"HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n\r\nno!"

        async def script(peer: Peer) -> None:
            await peer.send(refusal[:20], refusal[20:])
            if with_reset:
                peer.reset()

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            for _ in range(2):
                answer = await client.request("POST", "/", BIG, timeout=60, max_body=99)
                assert (answer.status, answer.body) == (413, b"no!")
            assert server.accepted == 2  # what was cut short leaves no usable connection
            await client.aclose()

    async def test_answer_is_not_kept_waiting_for_a_server_that_reads_no_more(self) -> None:
        async def script(peer: Peer) -> None:
            await peer.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\n", b"busy")
            await trio.sleep_forever()

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            with trio.fail_after(30):
                assert (await client.request("POST", "/", BIG, timeout=60, max_body=99)).body == b"busy"
            assert client._pool.idle == 0

    async def test_continue_does_not_stop_it(self) -> None:
        async def script(peer: Peer) -> None:
            await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            request = await peer.request()
            assert request is not None
            assert request[1] == BIG
            await peer.send(OK)

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            assert (await client.request("POST", "/", BIG, timeout=60, max_body=99)).status == 200
            await client.aclose()

    async def test_server_that_leaves_in_the_middle(self) -> None:
        async def script(peer: Peer) -> None:
            await peer.receive_some()
            peer.reset()

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            with pytest.raises(ConnectionLost):
                await client.request("POST", "/", BIG, timeout=60, max_body=99)

    async def test_server_that_does_not_read(self, autojump_clock: trio.testing.MockClock) -> None:
        async def script(peer: Peer) -> None:
            await trio.sleep_forever()

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            with pytest.raises(AnswerTimeout):
                await client.request("POST", "/", BIG, timeout=60, max_body=99)


BODY = b"0123456789"
SIZED = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + BODY,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n",
    "close": b"HTTP/1.1 200 OK\r\n\r\n" + BODY,
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(BODY),
}


class TestLimits:
    @pytest.mark.parametrize("framing", SIZED)
    async def test_body_at_the_cap_and_one_over(self, framing: str) -> None:
        async with scripted_server(answer_once(SIZED[framing])) as server:
            client, other = (UpstreamClient(server.url, max_connections=1) for _ in range(2))
            assert (await client.request("GET", "/", timeout=5, max_body=10)).body == BODY
            with pytest.raises(AnswerTooLarge):
                await other.request("GET", "/", timeout=5, max_body=9)
            await client.aclose()
            await other.aclose()

    async def test_endless_body_and_bomb_are_stopped_while_they_arrive(self) -> None:
        bomb = gzip.compress(bytes(64 << 20))

        async def script(peer: Peer) -> None:
            if peer.number == 0:
                await peer.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99999999\r\n\r\n", bomb)
                await peer.wait_closed()
            else:
                await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    await peer.send(b"x" * 65536)

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            for _ in range(2):
                with pytest.raises(AnswerTooLarge):
                    await client.request("GET", "/", timeout=5, max_body=1 << 20)

    @pytest.mark.parametrize(
        "pieces", [(), (b"HTTP/1.1 200 OK\r\n",), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"1")]
    )
    async def test_time_for_the_answer(self, pieces: tuple[bytes, ...], autojump_clock: trio.testing.MockClock) -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(*pieces)
            await peer.wait_closed()

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            for timeout in (5, 600, 1):  # a nearer deadline is noticed too
                start = trio.current_time()
                with pytest.raises(AnswerTimeout):
                    await client.request("POST", "/", b"{}", timeout=timeout, max_body=99)
                assert trio.current_time() == pytest.approx(start + timeout)

    async def test_deadlines_of_many_requests_are_their_own(self, autojump_clock: trio.testing.MockClock) -> None:
        ended: list[float] = []

        async with scripted_server(Peer.wait_closed) as server, trio.open_nursery() as nursery:
            client = UpstreamClient(server.url, max_connections=8)

            async def request(timeout: float) -> None:
                with pytest.raises(AnswerTimeout):
                    await client.request("POST", "/", b"{}", timeout=timeout, max_body=99)
                ended.append(timeout)
                assert trio.current_time() == pytest.approx(timeout)

            for timeout in (50, 10, 40, 20, 30, 10):
                nursery.start_soon(request, timeout)
        assert ended == [10, 10, 20, 30, 40, 50]

    async def test_trickle_does_not_prolong_it(self, autojump_clock: trio.testing.MockClock) -> None:
        async def script(peer: Peer) -> None:
            await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                await peer.send(b"x")
                await trio.sleep(1)

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            with pytest.raises(AnswerTimeout):
                await client.request("POST", "/", b"{}", timeout=30.5, max_body=99)
            assert trio.current_time() == pytest.approx(30.5)
