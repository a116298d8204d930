"""The guarded defects are still there in hypercorn and quart-trio as they come.

Each scenario passes on the guarded server and fails on the stock one. When a release mends a defect its stock run passes,
which fails here (strict xfail), and the guard can go.
"""

from collections.abc import Callable

import pytest
import trio
import trio.testing
from front import GET, front, post, stock_front
from shown_app import MANY
from test_guards_body import send_until_stuck
from trio.testing import MockClock

both = pytest.mark.parametrize(
    "serving",
    [
        pytest.param(front, id="guarded"),
        pytest.param(stock_front, id="stock", marks=pytest.mark.xfail(strict=True, reason="not mended upstream")),
    ],
)


@both
async def test_one_bad_request_does_not_stop_the_process(serving: Callable, autojump_clock: MockClock) -> None:
    upgrade = b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    async with serving() as server:
        client = await server.client()
        await client.send(
            upgrade + b"sec-websocket-version: 13\r\nsec-websocket-key: x\r\ncontent-length: 3\r\n\r\nabc"
        )
        with trio.move_on_after(1):
            await client.rest()
        with trio.fail_after(1):
            assert (await server.ask()).status == 200


@both
async def test_idle_connection_is_closed_after_its_answer(serving: Callable, autojump_clock: MockClock) -> None:
    async with serving() as server:
        client = await server.client()
        await client.send(GET)
        await client.answer()
        with trio.fail_after(1000):
            assert await client.rest() == b""


@both
async def test_client_that_does_not_read_does_not_block_the_shutdown(
    serving: Callable, autojump_clock: MockClock
) -> None:
    with trio.fail_after(1000):
        async with serving() as server:
            client = await server.client()
            await client.send(b"GET /stream HTTP/1.1\r\nhost: a\r\n\r\n")
            await trio.sleep(1)
            server.shutdown.set()
            await trio.sleep(10)
            await server.seen.ended.wait()


@both
async def test_body_that_nobody_consumes_is_not_buffered(serving: Callable, autojump_clock: MockClock) -> None:
    async with serving() as server:
        server.app.config["MAX_CONTENT_LENGTH"] = None
        client = await server.client()
        await client.send(post("/late", size=MANY))
        await server.seen.started.wait()
        assert await send_until_stuck(client, MANY) < MANY


@both
async def test_ambiguous_framing_is_refused(serving: Callable) -> None:
    async with serving() as server:
        answer = await server.ask(post("/read", b"abc", "content-length: 3"))
        assert answer.status == 400


@both
async def test_half_closed_client_is_answered(serving: Callable) -> None:
    async with serving() as server:
        client = await server.client()
        await client.send(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n")
        await server.seen.started.wait()
        await client.stream.send_eof()
        await trio.testing.wait_all_tasks_blocked(0.01)
        server.seen.go_on.set()
        assert (await client.answer()).status == 200
