"""What goes wrong on one connection ends that connection, is logged, and nothing more."""

import json

import pytest
import structlog.testing
import trio
from front import GET, front, guard_off
from trio.testing import MockClock

from fibatchd.web.guards import Connection, Limits
from fibatchd.web.guards.protocol import GuardedProtocol


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A protocol with a defect that `GET /defect` brings out."""

    async def handle(self: GuardedProtocol, event: object) -> None:
        if b"/defect" in getattr(event, "data", b""):
            raise RuntimeError("a defect")
        await sound(self, event)

    sound = GuardedProtocol.handle
    monkeypatch.setattr(GuardedProtocol, "handle", handle)


async def test_exception_ends_its_connection_only(broken: None) -> None:
    async with front() as server:
        bystander = await server.client()
        await bystander.send(GET)
        assert (await bystander.answer()).status == 200
        client = await server.client()
        with structlog.testing.capture_logs() as logs:
            await client.send(b"GET /defect HTTP/1.1\r\nhost: a\r\n\r\n")
            assert await client.rest() == b""
        assert [line["event"] for line in logs] == ["connection failed"]
        await bystander.send(GET)
        assert (await bystander.answer()).status == 200


async def test_without_the_guard_it_ends_the_server(broken: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "run", Connection._contained)

    async def ask_for_the_defect() -> None:
        async with front() as server:
            await (await server.client()).send(b"GET /defect HTTP/1.1\r\nhost: a\r\n\r\n")
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await ask_for_the_defect()
    assert caught.group_contains(RuntimeError, match="a defect")


async def test_app_that_raises_is_answered_500_without_a_word_of_why() -> None:
    async with front() as server:
        client = await server.client()
        await client.send(b"GET /fail HTTP/1.1\r\nhost: a\r\n\r\n")
        answer = await client.answer()
        assert answer.status == 500
        assert b"secret" not in answer.body
        await client.send(GET)
        assert (await client.answer()).status == 200


async def test_app_that_fails_outside_its_error_handlers_is_answered_500_in_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a secret")

    async with front() as server:
        monkeypatch.setattr(server.app, "asgi_app", fail)
        with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
            answer = await server.ask()
        assert answer.status == 500
        assert json.loads(answer.body)["error"] == {
            "message": "Internal server error.",
            "type": "server_error",
            "param": None,
            "code": None,
        }
        assert [line["request_id"] for line in logs] == [answer.headers["x-request-id"]]


@pytest.mark.parametrize("limits", [Limits(max_connections=5), guard_off(max_connections=1000)])
async def test_connections_are_capped(limits: Limits, autojump_clock: MockClock) -> None:
    async with front(limits) as server:
        waiting = [await server.client() for _ in range(5)]
        for client in waiting:
            await client.send(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked(0.01)
        late = await server.client()
        with trio.move_on_after(1):
            answer = await late.answer()
        server.seen.go_on.set()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert [(await client.answer()).status for client in waiting] == [200] * 5


async def test_at_the_cap_the_longest_idle_connection_makes_room() -> None:
    async with front(Limits(max_connections=3)) as server:
        clients = [await server.client() for _ in range(3)]
        for client in [clients[1], clients[0], clients[2]]:
            await client.send(GET)
            await client.answer()
        assert (await server.ask()).status == 200
        assert await clients[1].rest() == b""
        for client in (clients[0], clients[2]):
            await client.send(GET)
            assert (await client.answer()).status == 200


async def test_two_thousand_idle_connections_do_no_harm() -> None:
    async with front(Limits(head_s=1000)) as server:  # however long it takes to open them all
        clients = [await server.client() for _ in range(2000)]
        assert (await server.ask()).status == 200
        await clients[0].send(GET)
        assert (await clients[0].answer()).status == 200
