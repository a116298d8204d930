"""Clients that leave, and clients that only seem to: disconnects, half-closed connections, slow readers."""

import pytest
import trio
from front import GET, Client, Front, front, post
from shown_app import MANY
from trio.testing import MockClock

from fibatchd.web.guards import Connection, Limits

STREAM = b"GET /stream?pause_at=1000 HTTP/1.1\r\nhost: a\r\n\r\n"
WAIT = b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n"


async def reset(client: Client) -> None:
    """Close so that the server gets a reset, as from a process that was killed with unread bytes."""
    client.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    await client.stream.aclose()


async def close(client: Client) -> None:
    await client.stream.aclose()


async def under_way(server: Front, request: bytes) -> Client:
    client = await server.client()
    await client.send(request)
    await server.seen.started.wait()
    return client


@pytest.mark.parametrize("leave", [close, reset])
@pytest.mark.parametrize("request_bytes", [STREAM, WAIT])
async def test_client_that_leaves_cancels_its_handler(
    leave: object, request_bytes: bytes, autojump_clock: MockClock
) -> None:
    async with front() as server:
        client = await under_way(server, request_bytes)
        await leave(client)
        with trio.fail_after(3):
            await server.seen.ended.wait()


async def test_client_that_leaves_amid_a_stream_is_noticed_at_once(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await under_way(server, STREAM)
        await client.stream.aclose()
        start = trio.current_time()
        await server.seen.ended.wait()
        assert trio.current_time() == start


async def test_client_that_leaves_with_requests_piled_up_is_noticed(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await under_way(server, WAIT + GET * 10)
        await reset(client)
        with trio.fail_after(1):
            await server.seen.ended.wait()


async def test_client_that_leaves_in_the_middle_of_its_body_cancels_its_handler() -> None:
    async with front() as server:
        client = await under_way(server, post("/late", b"abc", size=1000))
        await client.stream.aclose()
        await server.seen.ended.wait()


@pytest.mark.parametrize("request_bytes", [GET, post("/read", b"abc"), GET + GET + post("/read", b"abc") + GET])
async def test_half_closed_client_is_answered(request_bytes: bytes) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(request_bytes)
        await client.stream.send_eof()
        for _ in range(request_bytes.count(b"HTTP/1.1")):
            assert (await client.answer()).status == 200
        assert await client.rest() == b""


async def test_without_the_guard_a_half_close_is_a_disconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut(self: Connection) -> None:
        self.cut()

    monkeypatch.setattr(Connection, "_watch", cut)
    async with front() as server:
        client = await under_way(server, WAIT)
        await client.stream.send_eof()
        assert await client.rest() == b""


async def test_half_closed_client_waits_as_long_as_it_takes(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await under_way(server, WAIT)
        await client.stream.send_eof()
        await trio.sleep(5.5)
        server.seen.go_on.set()
        for _ in range(5):
            assert await client.head() == (100, {})
        assert (await client.answer()).status == 200


async def test_half_closed_http_1_0_client_gets_no_interim_answers(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await under_way(server, b"GET /wait HTTP/1.0\r\n\r\n")
        await client.stream.send_eof()
        await trio.sleep(5.5)
        server.seen.go_on.set()
        assert (await client.answer()).status == 200


async def test_half_closed_client_gets_a_large_answer_whole(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        await client.stream.send_eof()
        await trio.sleep(20)
        assert len((await client.answer()).body) == 20_000_000


@pytest.mark.parametrize("request_bytes", [GET[:-2], post("/read", b"abc", size=4)])
async def test_half_closed_client_with_half_a_request_is_closed(request_bytes: bytes) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(request_bytes)
        await client.stream.send_eof()
        assert await client.rest() == b""


async def test_slow_reader_holds_its_stream_back(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(b"GET /stream HTTP/1.1\r\nhost: a\r\n\r\n")
        await client.head()
        await trio.sleep(1)
        stuck_at = server.seen.produced
        await trio.sleep(20)
        assert server.seen.produced == stuck_at < MANY
        while server.seen.produced == stuck_at:
            await client.stream.receive_some(65536)


async def test_slow_but_steady_reader_is_served(autojump_clock: MockClock) -> None:
    autojump_clock.autojump_threshold = (
        0.1  # what is in the kernel must come before the clock jumps, however busy it is
    )
    async with front(Limits(send_s=10)) as server:
        client = await server.client()
        await client.send(b"GET /stream HTTP/1.1\r\nhost: a\r\n\r\n")
        for _ in range(5):
            await trio.sleep(5)
            received = 0
            while received < 400_000:
                data = await client.stream.receive_some(65536)
                assert data
                received += len(data)
