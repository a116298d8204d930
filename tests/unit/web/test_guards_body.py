"""Request bodies: back-pressure, limits that hold while a body arrives, refusals that can be read, `100 Continue`."""

import json

import pytest
import trio
from front import GET, Client, front, guard_off, post
from quart_trio import QuartTrio
from shown_app import MANY, make_app
from trio.testing import MockClock

from fibatchd.web.guards import Limits
from fibatchd.web.guards.body import BodyFlow


async def send_until_stuck(client: Client, most: int) -> int:
    """How many bytes the server takes while nobody reads them."""
    sent = 0
    with trio.move_on_after(5):
        while sent < most:
            await client.send(b"x" * 65536)
            sent += 65536
    return sent


@pytest.mark.parametrize("limits", [Limits(), guard_off(body_high_water=None)])
async def test_body_that_nobody_reads_is_left_in_the_socket(limits: Limits, autojump_clock: MockClock) -> None:
    async with front(limits) as server:
        client = await server.client()
        await client.send(post("/late", size=MANY))
        await server.seen.started.wait()
        assert await send_until_stuck(client, MANY) < MANY


async def test_back_pressure_ends_when_the_handler_reads() -> None:
    async with front(Limits(body_high_water=1000)) as server, trio.open_nursery() as nursery:
        client = await server.client()
        nursery.start_soon(client.send, post("/late", b"x" * 5_000_000))
        await server.seen.started.wait()
        server.seen.go_on.set()
        assert json.loads((await client.answer()).body) == {"size": 5_000_000}
        await client.send(GET)
        assert (await client.answer()).status == 200


async def test_body_may_be_awaited_whole_past_the_high_water_mark() -> None:
    async with front(Limits(body_high_water=1000)) as server:
        assert json.loads((await server.ask(post("/whole", b"x" * 100_000))).body) == {"size": 100_000}


async def test_room_comes_back_as_bytes_are_taken(autojump_clock: MockClock) -> None:
    flow = BodyFlow(high_water=10)
    flow.arrived(11)
    with trio.move_on_after(1) as waited:
        await flow.room()
    assert waited.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flow.room)
        flow.taken(1)


@pytest.mark.parametrize("limits", [Limits(), guard_off(max_body_bytes=None)])
async def test_announced_body_over_the_cap_is_refused_before_it_is_sent(
    limits: Limits, autojump_clock: MockClock
) -> None:
    async with front(limits) as server:
        with trio.fail_after(2):
            answer = await server.ask(post("/whole", size=MANY + 1))
        assert (answer.status, answer.headers["connection"]) == (413, "close")


@pytest.mark.parametrize("limits", [Limits(max_body_bytes=1000), guard_off(max_body_bytes=None)])
async def test_chunked_body_over_the_cap_is_refused_while_it_arrives(limits: Limits, autojump_clock: MockClock) -> None:
    async with front(limits) as server:
        client = await server.client()
        await client.send(b"POST /whole HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        await client.send(b"1f4\r\n" + b"x" * 500 + b"\r\n" * 1)
        await client.send(b"1f5\r\n" + b"x" * 501 + b"\r\n" * 1)
        with trio.fail_after(2):
            assert (await client.answer()).status == 413


@pytest.mark.parametrize("size", [1000, 1001])
@pytest.mark.parametrize("chunked", [False, True])
async def test_route_sets_its_own_limit(size: int, chunked: bool) -> None:
    body = b"x" * size
    chunks = b"POST /read HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (size, body)
    async with front() as server:
        answer = await server.ask(chunks if chunked else post("/read", body))
        assert answer.status == (413 if size > 1000 else 200)
        if size > 1000:
            assert "larger than the limit of 1000 bytes" in json.loads(answer.body)["error"]


@pytest.mark.parametrize("path", ["/read", "/ignore"])
async def test_early_answer_can_be_read_by_a_client_that_is_still_sending(path: str) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(post(path, b"x" * 30_000_000))
        answer = await client.answer()
        assert answer.status == (413 if path == "/read" else 401)
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""


@pytest.mark.parametrize("limits", [Limits(), guard_off(linger_s=0)])
async def test_reset_does_not_overtake_the_answer(limits: Limits) -> None:
    async with front(limits) as server:
        client = await server.client()
        with trio.fail_after(10):
            await client.send(post("/read", b"x" * 30_000_000))
        assert (await client.answer()).status == 413


async def send_for_ever(client: Client) -> None:
    while True:
        await client.send(b"x" * 100_000)
        await trio.sleep(1)


async def test_lingering_for_a_client_that_sends_for_ever_ends(autojump_clock: MockClock) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(post("/read", size=60_000_000))
        assert (await client.answer()).status == 413
        start = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            await send_for_ever(client)
        assert 29 < trio.current_time() - start < 33


EXPECTING = ("expect: 100-continue",)


async def test_continue_is_sent_when_the_route_reads() -> None:
    async with front() as server:
        client = await server.client()
        await client.send(post("/read", b"", *EXPECTING, size=3))
        assert await client.head() == (100, {})
        await client.send(b"abc")
        assert json.loads((await client.answer()).body) == {"size": 3}


@pytest.mark.parametrize("path", ["/read", "/ignore"])
async def test_refused_client_that_expects_continue_sends_no_body(path: str) -> None:
    async with front() as server:
        client = await server.client()
        await client.send(post(path, b"", *EXPECTING, size=2000))
        answer = await client.answer()
        assert answer.status == (413 if path == "/read" else 401)
        assert answer.headers["connection"] == "close"


async def test_continue_is_not_sent_to_http_1_0() -> None:
    async with front() as server:
        client = await server.client()
        await client.send(b"POST /read HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc")
        assert (await client.answer()).status == 200


async def test_bodies_held_together_are_bounded() -> None:
    async with front() as server:
        first, second = await server.client(), await server.client()
        await first.send(post("/held", b"x" * 60_000))
        await server.seen.started.wait()
        await second.send(post("/held", b"", *EXPECTING, size=60_000))
        assert (await second.answer()).status == 503
        server.seen.go_on.set()
        assert json.loads((await first.answer()).body) == {"size": 60_000}
        assert (await server.ask(post("/held", b"x" * 90_000))).status == 200
        assert (await server.ask(post("/held", b"x" * 90_001))).status == 413
        assert (await server.ask(post("/held", b"x" * 90_000))).status == 200


async def test_chunked_bodies_count_as_they_arrive() -> None:
    chunk = b"c350\r\n" + b"x" * 50_000 + b"\r\n"
    async with front() as server:
        first, second = await server.client(), await server.client()
        await first.send(post("/held", b"x" * 80_000))
        await server.seen.started.wait()
        await second.send(b"POST /held HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" + chunk)
        assert (await second.answer()).status == 503
        server.seen.go_on.set()
        assert (await first.answer()).status == 200


async def test_body_of_a_client_that_left_is_no_longer_held() -> None:
    async with front() as server:
        client = await server.client()
        await client.send(post("/held", b"x" * 10, size=90_000))
        await client.stream.aclose()
        server.seen.go_on.set()
        while (await server.ask(post("/held", b"x" * 90_000))).status == 503:
            await trio.lowlevel.checkpoint()


async def test_application_works_without_the_server() -> None:
    app: QuartTrio = make_app()
    async with app.test_app() as running:
        answer = await running.test_client().post("/read", data=b"abc")
        assert await answer.get_json() == {"size": 3}
        assert (await running.test_client().post("/read", data=b"x" * 1001)).status_code == 413
