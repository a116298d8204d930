"""TLS: who is trusted, what is asked for, and that the exchange is the same as without."""

import ssl
from pathlib import Path

import pytest
import trio
import trustme
from scripted_server import Peer, answer_once, answer_with, scripted_server, settle

from fibatchd.errors import AnswerTimeout, ConnectFailed, ConnectionLost
from fibatchd.upstream.client import UpstreamClient

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
BIG = b"x" * (8 << 20)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return str(tmp_path / "ca.pem")


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


async def test_requests_over_a_kept_connection(authority: trustme.CA, ca_file: str) -> None:
    async with scripted_server(answer_with(OK[:9], OK[9:]), tls=server_context(authority, "127.0.0.1")) as server:
        client = UpstreamClient(server.url, ca_file=ca_file, max_connections=1)
        for _ in range(3):
            assert (await client.request("POST", "/", b"{}", timeout=30, max_body=99)).body == b"hi"
        async with client.stream("POST", "/", b"{}", timeout=30) as answer:
            assert [piece async for piece in answer] == [b"hi"]
        assert server.accepted == 1
        await client.aclose()


async def test_big_bodies_both_ways(authority: trustme.CA, ca_file: str) -> None:
    async def script(peer: Peer) -> None:
        while (request := await peer.request()) is not None:  # stays open: nothing but the bytes may wake the reader
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BIG) + request[1])

    async with scripted_server(script, tls=server_context(authority, "127.0.0.1")) as server:
        client = UpstreamClient(server.url, ca_file=ca_file, max_connections=1)
        with trio.fail_after(60):
            for _ in range(2):
                assert (await client.request("POST", "/", BIG, timeout=90, max_body=len(BIG))).body == BIG
        await client.aclose()


async def test_server_name_is_sent_and_the_protocol_agreed(authority: trustme.CA, ca_file: str) -> None:
    context = server_context(authority, "localhost")
    context.set_alpn_protocols(["h2", "http/1.1"])
    names = []
    context.sni_callback = lambda sock, name, _: names.append((name, sock))
    async with scripted_server(answer_once(OK), tls=context) as server:
        client = UpstreamClient(server.url.replace("127.0.0.1", "localhost"), ca_file=ca_file, max_connections=1)
        assert (await client.request("GET", "/", timeout=30, max_body=99)).status == 200
        ((name, sock),) = names
        assert (name, sock.selected_alpn_protocol()) == ("localhost", "http/1.1")
        await client.aclose()


async def test_one_record_is_read_whole(authority: trustme.CA, ca_file: str) -> None:
    """What OpenSSL has decrypted and nobody took makes no socket readable: the reader would wait for ever."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 16000\r\n\r\n" + b"x" * 16000
    async with scripted_server(answer_with(answer), tls=server_context(authority, "127.0.0.1")) as server:
        client = UpstreamClient(server.url, ca_file=ca_file, max_connections=1)
        with trio.fail_after(30):
            assert (await client.request("GET", "/", timeout=60, max_body=16000)).body == b"x" * 16000
        await client.aclose()


class TestTrust:
    """A server that cannot prove who it is gets nothing: ConnectFailed."""

    async def refused(self, client: UpstreamClient, match: str) -> None:
        with pytest.raises(ConnectFailed, match=match):
            await client.request("POST", "/", b"secret", timeout=30, max_body=99)

    async def test_unknown_authority(self, authority: trustme.CA) -> None:
        async with scripted_server(Peer.wait_closed, tls=server_context(authority, "127.0.0.1")) as server:
            await self.refused(UpstreamClient(server.url, max_connections=1), "CERTIFICATE_VERIFY_FAILED")
            await settle()
            assert server.open == 0

    async def test_other_host(self, authority: trustme.CA, ca_file: str) -> None:
        async with scripted_server(Peer.wait_closed, tls=server_context(authority, "other.example")) as server:
            await self.refused(
                UpstreamClient(server.url, ca_file=ca_file, max_connections=1), "not valid for '127.0.0.1'"
            )

    async def test_no_tls(self, ca_file: str) -> None:
        async def script(peer: Peer) -> None:
            await peer.receive_some()
            await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        async with scripted_server(script) as server:
            url = server.url.replace("http:", "https:")
            await self.refused(UpstreamClient(url, ca_file=ca_file, max_connections=1), "(?i)wrong.version.number")

    async def test_closed_in_the_handshake(self, ca_file: str) -> None:
        async with scripted_server(Peer.receive_some) as server:
            url = server.url.replace("http:", "https:")
            await self.refused(UpstreamClient(url, ca_file=ca_file, max_connections=1), ".")

    def test_system_trust_is_kept(self, authority: trustme.CA, ca_file: str) -> None:
        without = ssl.create_default_context().cert_store_stats()["x509"]
        client = UpstreamClient("https://x", ca_file=ca_file, max_connections=1)
        context = client._context
        assert context is not None
        assert context.cert_store_stats()["x509"] == without + 1
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)

    @pytest.mark.parametrize("content", [None, b"no certificate"])
    def test_bad_ca_file(self, content: bytes | None, tmp_path: Path) -> None:
        if content is not None:
            (tmp_path / "ca.pem").write_bytes(content)
        with pytest.raises(OSError, match=r"."):
            UpstreamClient("https://x", ca_file=str(tmp_path / "ca.pem"), max_connections=1)


class TestEnd:
    def test_a_cut_is_told_where_python_would_ignore_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lenient = ssl.create_default_context()
        lenient.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
        monkeypatch.setattr(ssl, "create_default_context", lambda: lenient)
        UpstreamClient("https://x", max_connections=1)
        assert not lenient.options & ssl.OP_IGNORE_UNEXPECTED_EOF

    def test_an_openssl_that_never_ignores_a_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(ssl, "OP_IGNORE_UNEXPECTED_EOF")
        context = UpstreamClient("https://x", max_connections=1)._context
        assert context is not None
        assert context.options == ssl.create_default_context().options

    def close_after(self, answer: bytes, *, orderly: bool) -> object:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(answer)
            if orderly:
                await peer.close_tls()

        return script

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    async def test_close_delimited_answer_needs_the_closing_alert(
        self, authority: trustme.CA, ca_file: str, version: ssl.TLSVersion
    ) -> None:
        """Anybody on the way can end a TCP connection, but not forge the alert (RFC 9112, 9.8)."""
        context = server_context(authority, "127.0.0.1")
        context.maximum_version = version
        answer = b"HTTP/1.1 200 OK\r\n\r\nhi"
        async with scripted_server(self.close_after(answer, orderly=True), tls=context) as server:
            client = UpstreamClient(server.url, ca_file=ca_file, max_connections=1)
            assert (await client.request("GET", "/", timeout=30, max_body=99)).body == b"hi"
        async with scripted_server(self.close_after(answer, orderly=False), tls=context) as server:
            client = UpstreamClient(server.url, ca_file=ca_file, max_connections=1)
            with pytest.raises(ConnectionLost):
                await client.request("GET", "/", timeout=30, max_body=99)

    @pytest.mark.parametrize("orderly", [False, True])
    async def test_closed_while_idle_is_replaced(self, authority: trustme.CA, ca_file: str, orderly: bool) -> None:
        script = self.close_after(OK, orderly=orderly)
        async with scripted_server(script, tls=server_context(authority, "127.0.0.1")) as server:
            client = UpstreamClient(server.url, ca_file=ca_file, max_connections=1)
            for accepted in (1, 2, 3):
                assert (await client.request("GET", "/", timeout=30, max_body=99)).body == b"hi"
                await settle()
                assert server.accepted == accepted
            await client.aclose()

    async def test_time_out(self, authority: trustme.CA, ca_file: str, autojump_clock: trio.testing.MockClock) -> None:
        async with scripted_server(Peer.wait_closed, tls=server_context(authority, "127.0.0.1")) as server:
            client = UpstreamClient(server.url, ca_file=ca_file, max_connections=1)
            with pytest.raises(AnswerTimeout):
                await client.request("GET", "/", timeout=30, max_body=99)
