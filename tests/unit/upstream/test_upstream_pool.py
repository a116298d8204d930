"""Connections: reused, bounded, replaced when dead, closed when idle, and never lost or mixed up by a cancellation."""

import random
from contextlib import suppress

import pytest
import trio
import trio.testing
from scripted_server import Peer, answer_with, scripted_server, settle

from fibatchd.errors import ConnectionLost, UpstreamError
from fibatchd.upstream.client import UpstreamClient
from fibatchd.upstream.connection import Connection

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


async def echo(peer: Peer) -> None:
    """Answers with the request's body, in pieces, so that an answer that reaches the wrong request shows."""
    while (request := await peer.request()) is not None:
        await peer.send(b"HTTP/1.1 200 OK\r\n", b"Content-Length: %d\r\n\r\n" % len(request[1]), request[1])


async def slow_echo(peer: Peer) -> None:
    """The same after a second."""
    while (request := await peer.request()) is not None:
        await trio.sleep(1)
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(request[1]), request[1]))


async def get(client: UpstreamClient, body: bytes = b"", timeout: float = 60) -> bytes:
    return (await client.request("POST", "/", body, timeout=timeout, max_body=99)).body


async def test_connection_is_reused() -> None:
    async with scripted_server(answer_with(OK)) as server:
        client = UpstreamClient(server.url, max_connections=4)
        for _ in range(5):
            assert await get(client) == b"hi"
        assert server.accepted == 1
        await client.aclose()


async def test_connections_are_bounded_and_who_waits_first_is_served_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    order: list[bytes] = []
    async with scripted_server(slow_echo) as server:
        client = UpstreamClient(server.url, max_connections=3)

        async def request(body: bytes) -> None:
            assert await get(client, body) == body
            order.append(body)
            assert server.open <= 3

        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(request, b"%02d" % number)
                await settle()
                assert client._pool.in_use == min(number + 1, 3)
        assert server.accepted == 3
        assert [sorted(order[at : at + 3]) for at in (0, 3, 6, 9)] == [
            [b"%02d" % (at + i) for i in range(3)] for at in (0, 3, 6, 9)
        ]
        assert (client._pool.in_use, client._pool.idle) == (0, 3)
        await client.aclose()


async def test_connection_used_last_is_used_next(autojump_clock: trio.testing.MockClock) -> None:
    used: list[int] = []

    async def script(peer: Peer) -> None:
        while (request := await peer.request()) is not None:
            used.append(peer.number)
            await trio.sleep(int(request[1]))
            await peer.send(OK)

    async with scripted_server(script) as server:
        client = UpstreamClient(server.url, max_connections=3)
        async with trio.open_nursery() as nursery:
            for seconds in (b"1", b"3", b"2"):
                nursery.start_soon(get, client, seconds)
                await settle()
        used.clear()
        for _ in range(3):
            await get(client, b"0")
        assert used == [1, 1, 1]
        await client.aclose()


async def test_idle_connections_are_closed_in_time(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_server(slow_echo) as server:
        client = UpstreamClient(server.url, max_connections=3, idle_timeout=4)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(get, client)
        assert server.open == 3
        await trio.sleep(3.5)
        await get(client)  # takes a second, in which the other two grow too old
        await settle()
        assert (client._pool.idle, server.open) == (1, 1)
        await trio.sleep(3.9)
        assert server.open == 1
        await trio.sleep(0.2)
        await settle()
        assert (client._pool.idle, server.open) == (0, 0)
        assert await get(client, b"and on") == b"and on"
        await client.aclose()


class TestDeadConnection:
    """What happens to a request that is about to use a connection which the server has closed, or just closes."""

    @pytest.mark.parametrize("with_reset", [False, True])
    async def test_closed_before_use_is_replaced(self, with_reset: bool) -> None:
        requests: list[bytes] = []

        async def script(peer: Peer) -> None:
            request = await peer.request()
            assert request is not None
            requests.append(request[1])
            await peer.send(OK)
            if with_reset:
                peer.reset()

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            for body in (b"1", b"2", b"3"):
                assert await get(client, body) == b"hi"
                await settle()
            assert requests == [b"1", b"2", b"3"]
            assert server.accepted == 3
            await client.aclose()

    async def test_failed_first_write_is_repeated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The server closed it between the check and the write, which a test cannot do: so the check is blinded."""
        monkeypatch.setattr(Connection, "is_quiet", lambda _: True)
        requests: list[bytes] = []

        async def script(peer: Peer) -> None:
            request = await peer.request()
            assert request is not None
            requests.append(request[1])
            await peer.send(OK)
            peer.reset()

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=2)
            for body in (b"1", b"2"):
                assert await get(client, body) == b"hi"
                await settle()
            assert requests == [b"1", b"2"]
            assert client._pool.in_use == 0
            await client.aclose()

    @pytest.mark.parametrize("with_reset", [False, True])
    async def test_closed_after_the_request_was_sent_is_not_repeated(self, with_reset: bool) -> None:
        requests: list[bytes] = []

        async def script(peer: Peer) -> None:
            while (request := await peer.request()) is not None:
                requests.append(request[1])
                if request[1] == b"2":
                    if with_reset:
                        peer.reset()
                    return
                await peer.send(OK)

        async with scripted_server(script) as server:
            client = UpstreamClient(server.url, max_connections=1)
            assert await get(client, b"1") == b"hi"
            with pytest.raises(ConnectionLost):
                await get(client, b"2")
            assert requests == [b"1", b"2"]
            assert server.accepted == 1
            assert await get(client, b"3") == b"hi"
            await client.aclose()

    @pytest.mark.parametrize("late", [b"x", b"\r\n", OK.replace(b"hi", b"no")])
    async def test_that_spoke_out_of_turn_is_replaced(self, late: bytes) -> None:
        async with scripted_server(answer_with(OK, late)) as server:
            client = UpstreamClient(server.url, max_connections=1)
            for _ in range(3):
                assert await get(client) == b"hi"
                await settle()
            assert server.accepted == 3
            await client.aclose()

    @pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
    async def test_announced_is_closed_at_once(self, head: bytes) -> None:
        async with scripted_server(answer_with(head + b"Content-Length: 2\r\n\r\nhi")) as server:
            client = UpstreamClient(server.url, max_connections=1)
            for accepted in (1, 2):
                assert await get(client) == b"hi"
                await settle()
                assert (server.accepted, server.open) == (accepted, 0)
                assert not client._pool._timekeeper._deadlines  # nor is it remembered until its deadline


async def test_closed_client_closes_what_is_idle_now_and_what_comes_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scripted_server(slow_echo) as server:
        client = UpstreamClient(server.url, max_connections=2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(get, client)
            nursery.start_soon(get, client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(get, client)
            await settle()
            await client.aclose()
            await settle()
            assert server.open == 1
        await settle()
        assert server.open == 0
        assert await get(client, b"late") == b"late"
        await settle()
        assert server.open == 0


def test_idle_connections_end_with_the_run() -> None:
    """A client that nobody closed leaves no socket behind: a ResourceWarning would fail this."""

    async def main() -> Connection:
        async with scripted_server(answer_with(OK)) as server:
            client = UpstreamClient(server.url, max_connections=1)
            await get(client)
            return client._pool._idle[0]

    assert trio.run(main)._sock.fileno() == -1


class TestCancellation:
    async def use_all(self, client: UpstreamClient, opened: list[Connection], size: int) -> None:
        """The pool is as good as new: nothing is in use, and `size` requests at once get each its own answer."""
        assert client._pool.in_use == 0
        assert client._pool.idle <= size

        async def request(body: bytes) -> None:
            assert await get(client, body) == body

        async with trio.open_nursery() as nursery:
            for number in range(size):
                nursery.start_soon(request, b"after %d" % number)
        assert still_open(opened) == client._pool.idle

    @pytest.mark.parametrize("reused", [False, True])
    @pytest.mark.parametrize("streamed", [False, True])
    async def test_at_every_step(self, streamed: bool, reused: bool, autojump_clock: trio.testing.MockClock) -> None:
        """Cancel a request at every turn of the loop, between one standstill and the next, until it outruns this."""

        async def request(client: UpstreamClient) -> bytes:
            if not streamed:
                return await get(client, b"cancel")
            async with client.stream("POST", "/", b"cancel", timeout=60) as answer:
                return await answer.read(99)

        async with scripted_server(echo) as server:
            for steps in range(200):
                client = UpstreamClient(server.url, max_connections=1)
                opened = record_connections(client)
                if reused:
                    await get(client)
                got = b""
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:

                        async def cancel_later(steps: int = steps, scope: trio.CancelScope = scope) -> None:
                            for _ in range(steps):
                                await (
                                    trio.testing.wait_all_tasks_blocked()
                                ) if _ % 8 == 7 else await trio.lowlevel.checkpoint()
                            scope.cancel()

                        nursery.start_soon(cancel_later)
                        got = await request(client)
                        nursery.cancel_scope.cancel()
                await self.use_all(client, opened, 1)
                await client.aclose()
                if got:
                    break
            assert steps > 5
            assert got == b"cancel"

    @pytest.mark.parametrize("seed", range(20))
    async def test_at_random(self, seed: int, autojump_clock: trio.testing.MockClock) -> None:
        """Requests and streams against a server that is slow and faulty, each cancelled at some random moment."""
        chance = random.Random(seed)

        faults = Faults(chance)
        async with scripted_server(faults.echo) as server:
            client = UpstreamClient(server.url, max_connections=4, idle_timeout=chance.choice([0.5, 4]))
            opened = record_connections(client)

            async def request(number: int) -> None:
                body = b"%d" % number
                await trio.sleep(chance.uniform(0, 10))
                with trio.move_on_after(chance.uniform(0, 6)):
                    with suppress(UpstreamError):
                        assert await call(client, body, chance) == body
                assert still_open(opened) <= 4

            async with trio.open_nursery() as nursery:
                for number in range(60):
                    nursery.start_soon(request, number)
            faults.rate = 0
            await self.use_all(client, opened, 4)
            await client.aclose()


class Faults:
    """A script like `echo`, but with pauses anywhere, and sometimes it closes or resets instead of going on."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.rate = 0.1

    async def echo(self, peer: Peer) -> None:
        while (request := await peer.request()) is not None:
            for piece in (b"HTTP/1.1 200 OK\r\nContent-", b"Length: %d\r\n\r\n" % len(request[1]), request[1]):
                await trio.sleep(self.chance.choice([0, 0.1, 1]))
                if self.chance.random() < self.rate:
                    if self.chance.random() < 0.5:
                        peer.reset()
                    return
                await peer.send(piece)


def record_connections(client: UpstreamClient) -> list[Connection]:
    """Every connection that `client` opens from now on."""
    connect, opened = client._pool._connect, []

    async def recorded() -> Connection:
        opened.append(await connect())
        return opened[-1]

    client._pool._connect = recorded
    return opened


def still_open(connections: list[Connection]) -> int:
    return sum(connection._sock.fileno() != -1 for connection in connections)


async def call(client: UpstreamClient, body: bytes, chance: random.Random) -> bytes:
    timeout = chance.choice([0.5, 2, 60])
    if chance.random() < 0.5:
        return await get(client, body, timeout)
    async with client.stream("POST", "/", body, timeout=timeout) as answer:
        if chance.random() < 0.2:
            return body  # leaves before the end
        return await answer.read(99)
