"""Time-outs of the front end: idle connections, heads, bodies, answers nobody reads. The clock is trio's mock clock."""

import math

import pytest
import trio
import trio.testing
from front import GET, front, guard_off, post

from fibatchd.web.guards import Limits


@pytest.mark.parametrize("limits", [Limits(), guard_off(idle_s=None)])
async def test_kept_alive_connection_closes_after_75_silent_seconds(
    limits: Limits, autojump_clock: trio.testing.MockClock
) -> None:
    async with front(limits) as server:
        client = await server.client()
        for _ in range(3):
            await client.send(GET)
            assert (await client.answer()).status == 200
            await trio.sleep(70)
        await client.send(GET)
        assert (await client.answer()).status == 200
        start = trio.current_time()
        with trio.fail_after(1000):
            assert await client.rest() == b""
        assert trio.current_time() - start == pytest.approx(75, abs=0.1)


@pytest.mark.parametrize("limits", [Limits(), guard_off(head_s=None)])
async def test_head_that_trickles_in_is_answered_408_after_10_seconds(
    limits: Limits, autojump_clock: trio.testing.MockClock
) -> None:
    async with front(limits) as server:
        client = await server.client()
        start = trio.current_time()
        with trio.fail_after(1000):
            for byte in GET[:-1]:
                await client.send(bytes([byte]))
                await trio.sleep(1)
                if trio.current_time() - start > 10:
                    break
            assert (await client.answer()).status == 408
            assert await client.rest() == b""


async def test_second_head_on_a_connection_has_its_own_10_seconds(autojump_clock: trio.testing.MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(GET)
        await client.answer()
        await trio.sleep(60)
        await client.send(GET[:-2])
        start = trio.current_time()
        assert (await client.answer()).status == 408
        assert trio.current_time() - start == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize("limits", [Limits(), guard_off(head_s=None)])
async def test_connection_that_never_speaks_is_closed_without_a_word(
    limits: Limits, autojump_clock: trio.testing.MockClock
) -> None:
    async with front(limits) as server:
        client = await server.client()
        start = trio.current_time()
        with trio.fail_after(60):
            assert await client.rest() == b""
        assert trio.current_time() - start == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize("limits", [Limits(), guard_off(body_window_s=None)])
async def test_body_slower_than_a_kibibyte_a_second_is_answered_408(
    limits: Limits, autojump_clock: trio.testing.MockClock
) -> None:
    async with front(limits) as server:
        client = await server.client()
        await client.send(post("/read?limit=1000000", size=100_000))
        for _ in range(40):
            await client.send(b"x" * 900)
            await trio.sleep(1)
        with trio.fail_after(1):
            answer = await client.answer()
        assert answer.status == 408
        assert answer.headers["connection"] == "close"


async def test_body_at_the_floor_is_received_however_long_it_takes(autojump_clock: trio.testing.MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(post("/read?limit=1000000", size=100 * 1100))
        for _ in range(100):
            await client.send(b"x" * 1100)
            await trio.sleep(1)
        assert (await client.answer()).body == b'{"size":110000}\n'


async def test_time_that_the_handler_does_not_read_is_not_the_clients(autojump_clock: trio.testing.MockClock) -> None:
    async with front(Limits(body_high_water=1000)) as server:
        client = await server.client()
        await client.send(post("/late", b"x" * 5000, size=10_000))
        await server.seen.started.wait()
        await trio.sleep(1000)
        server.seen.go_on.set()
        await client.send(b"x" * 5000)
        assert (await client.answer()).body == b'{"size":10000}\n'


async def test_handler_may_take_any_time_for_its_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n")
        await server.seen.started.wait()
        await trio.sleep(10_000)
        server.seen.go_on.set()
        assert (await client.answer()).status == 200


async def test_stream_may_pause_for_any_time(autojump_clock: trio.testing.MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(b"GET /stream?pause_at=1000 HTTP/1.1\r\nhost: a\r\n\r\n")
        await client.head()
        await server.seen.started.wait()
        await trio.sleep(10_000)
        server.seen.go_on.set()
        while server.seen.produced < 100_000:
            assert await client.stream.receive_some(65536)


@pytest.mark.parametrize("limits", [Limits(), guard_off(send_s=None)])
async def test_client_that_does_not_read_is_cut_after_30_seconds(
    limits: Limits, autojump_clock: trio.testing.MockClock
) -> None:
    async with front(limits, grace_s=math.inf) as server:
        client = await server.client()
        await client.send(b"GET /stream HTTP/1.1\r\nhost: a\r\n\r\n")
        with trio.fail_after(1000):
            await server.seen.ended.wait()
