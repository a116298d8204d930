"""Streamed answers: each event as it comes, ends of every kind, and leaving early."""

import gzip
import zlib

import pytest
import trio
import trio.testing
from scripted_server import RECORDED, Peer, answer_once, answer_with, read_with_h11, scripted_server, settle

from fibatchd.errors import AnswerBroken, AnswerTimeout, AnswerTooLarge, ConnectionLost
from fibatchd.upstream.client import UpstreamClient

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_each_event_is_passed_on_before_the_next_is_sent() -> None:
    events = [b"data: %d\n\n" % number for number in range(20)]
    arrived = trio.Semaphore(0)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        for event in events:
            await arrived.acquire()  # the head, then each event: the client has it, or this would wait for ever
            await peer.send(chunk(event))
        await peer.send(b"0\r\n\r\n")

    async with scripted_server(script) as server:
        client = UpstreamClient(server.url, max_connections=1)
        got = []
        with trio.fail_after(30):
            async with client.stream("POST", "/", b"{}", timeout=60) as answer:
                assert (answer.status, answer.header(b"content-type")) == (200, b"text/event-stream")
                arrived.release()
                async for event in answer:
                    got.append(event)
                    arrived.release()
        assert got == events
        await client.aclose()


@pytest.mark.parametrize("name", [name for name in RECORDED if name.endswith("_stream")])
async def test_recorded_stream_byte_by_byte(name: str) -> None:
    message = RECORDED[name]
    async with scripted_server(answer_with(*(bytes((byte,)) for byte in message))) as server:
        client = UpstreamClient(server.url, max_connections=1)
        async with client.stream("POST", "/", b"{}", timeout=60) as answer:
            body = b"".join([piece async for piece in answer])
        assert (answer.status, body) == read_with_h11(message)
        assert body.endswith(b"data: [DONE]\n\n")
        assert client._pool.idle == 1
        await client.aclose()


async def test_compressed_events_are_decoded_as_they_come() -> None:
    compressor = zlib.compressobj(wbits=31)
    arrived = trio.Semaphore(1)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"))
        for number in range(3):
            await arrived.acquire()
            event = compressor.compress(b"data: %d\n\n" % number) + compressor.flush(zlib.Z_SYNC_FLUSH)
            await peer.send(chunk(event))
        await peer.send(chunk(compressor.flush()) + b"0\r\n\r\n")

    async with scripted_server(script) as server:
        client = UpstreamClient(server.url, max_connections=1)
        got = []
        async with client.stream("POST", "/", timeout=60) as answer:
            async for event in answer:
                got.append(event)
                arrived.release()
        assert got == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]
        await client.aclose()


@pytest.mark.parametrize("by", ["break", "error", "cancellation"])
async def test_leaving_early_closes_the_connection_at_once(by: str) -> None:
    left = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(b"data: 1\n\n"))
        await peer.wait_closed()
        left.set()

    async with scripted_server(script) as server:
        client = UpstreamClient(server.url, max_connections=1)
        with trio.CancelScope() as scope:
            try:
                async with client.stream("POST", "/", timeout=60) as answer:
                    async for _ in answer:
                        if by == "break":
                            break
                        if by == "error":
                            raise KeyError(by)
                        scope.cancel()
            except KeyError:
                assert by == "error"
        with trio.fail_after(30):
            await left.wait()
        assert (client._pool.in_use, client._pool.idle) == (0, 0)


ENDS = {
    "between chunks": (CHUNKED + chunk(b"data: 1\n\n"), ConnectionLost),
    "in a chunk": (CHUNKED + b"c8\r\n" + b"data: 1\n\n" * 9, ConnectionLost),
    "before the last line end": (CHUNKED + chunk(b"data: 1\n\n") + b"0\r\n", ConnectionLost),
    "in the length": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndata: 1\n\n", ConnectionLost),
    "bad chunk": (CHUNKED + chunk(b"data: 1\n\n") + b"nonsense\r\n", AnswerBroken),
    "in gzip": (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"data: 1\n\n" * 99)[:-9], AnswerBroken),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
async def test_answer_that_ends_early_says_so_after_what_it_gave(end: str) -> None:
    message, error = ENDS[end]
    async with scripted_server(answer_once(message[:-10], message[-10:])) as server:
        client = UpstreamClient(server.url, max_connections=1)
        got = b""
        with pytest.raises(error):  # noqa: PT012
            async with client.stream("POST", "/", timeout=60) as answer:
                async for piece in answer:
                    got += piece
        assert got
        assert (b"data: 1\n\n" * 99).startswith(got)
        await client.aclose()


@pytest.mark.parametrize("after", [b"", CHUNKED[:30], CHUNKED, CHUNKED + chunk(b"data: 1\n\n")])
async def test_time_goes_on_while_the_body_is_read(after: bytes, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(after)
        await peer.wait_closed()

    async with scripted_server(script) as server:
        client = UpstreamClient(server.url, max_connections=1)
        with pytest.raises(AnswerTimeout):  # noqa: PT012
            async with client.stream("POST", "/", timeout=20) as answer:
                async for _ in answer:
                    await trio.sleep(7)
        assert trio.current_time() == pytest.approx(20)
        await settle()
        assert server.open == 0


async def test_no_read_no_bound(autojump_clock: trio.testing.MockClock) -> None:
    """A reader that stops reading stops the server: nothing is taken in beyond the kernel's buffers."""
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await peer.send(b"x" * 65536)
            sent += 65536

    async with scripted_server(script) as server:
        client = UpstreamClient(server.url, max_connections=1)
        async with client.stream("POST", "/", timeout=60) as answer:
            await settle()
            await trio.sleep(10)
            assert sent < 32 << 20
            assert len(await anext(answer)) <= 65536


class TestReadingTheRest:
    async def test_of_an_error(self) -> None:
        async with scripted_server(answer_with(RECORDED["llamacpp_loading"])) as server:
            client = UpstreamClient(server.url, max_connections=1)
            async with client.stream("POST", "/", timeout=60) as answer:
                assert answer.status == 503
                assert await answer.read(1000) == read_with_h11(RECORDED["llamacpp_loading"])[1]
            assert client._pool.idle == 1
            await client.aclose()

    async def test_over_the_cap(self) -> None:
        async with scripted_server(answer_once(b"HTTP/1.1 500 E\r\n\r\n" + b"x" * 11)) as server:
            client = UpstreamClient(server.url, max_connections=1)
            with pytest.raises(AnswerTooLarge):
                async with client.stream("POST", "/", timeout=60) as answer:
                    await answer.read(10)

    async def test_after_the_block_is_an_error(self) -> None:
        """The connection may be somebody else's by then."""
        async with scripted_server(answer_with(RECORDED["vllm_stream"])) as server:
            client = UpstreamClient(server.url, max_connections=1)
            async with client.stream("POST", "/", timeout=60) as answer:
                pass
            with pytest.raises(RuntimeError, match="inside its block"):
                await anext(answer)
            assert answer.status == 200
            await client.aclose()
