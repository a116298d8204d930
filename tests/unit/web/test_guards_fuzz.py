"""A few hundred broken connections, made from good ones by a fixed seed: each ends, and the server answers on."""

import random
from collections.abc import Iterator

import pytest
import trio
from front import GET, Client, Front, front, post
from trio.testing import MockClock

SEEDS = [
    GET,
    GET + GET,
    post("/read", b"abc"),
    post("/read", b"abc", "expect: 100-continue"),
    b"POST /whole HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n10;x=1\r\n0123456789abcdef\r\n0\r\nx: 1\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZQ==\r\ncontent-length: 3\r\n\r\nabc",
    b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABk\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xa5" * 200,
    b"GET /fail HTTP/1.1\r\nhost: a\r\n\r\n",
    b"GET /stream?pause_at=100 HTTP/1.1\r\nhost: a\r\n\r\n",
]
TOKENS = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b" ",
    b":",
    b",",
    b"chunked",
    b"content-length: 5\r\n",
    b"HTTP/1.1",
    b"-1",
    b"\xff",
]


def mutate(data: bytes, rng: random.Random) -> bytes:
    mutated = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(mutated) + 1)
        match rng.randrange(5):
            case 0:
                mutated[at:at] = rng.choice(TOKENS)
            case 1:
                del mutated[at : at + rng.randint(1, 8)]
            case 2:
                mutated[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                mutated[at:at] = mutated[at : at + rng.randint(1, 40)]
            case 4:
                del mutated[at:]
    return bytes(mutated)


def cut_up(data: bytes, rng: random.Random) -> Iterator[bytes]:
    while data:
        size = rng.choice([1, 7, 50, len(data)])
        yield data[:size]
        data = data[size:]


async def attack(server: Front, rng: random.Random) -> None:
    """Send something broken in pieces, then leave in one of the ways there are."""
    client = await server.client()
    try:
        for piece in cut_up(mutate(rng.choice(SEEDS), rng), rng):
            await client.send(piece)
            await trio.sleep(rng.choice([0, 0, 0.1]))
        await leave(client, rng)
    except trio.BrokenResourceError:
        pass
    await client.stream.aclose()


async def leave(client: Client, rng: random.Random) -> None:
    match rng.randrange(4):
        case 0:
            client.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        case 1:
            await client.stream.send_eof()
            await read_on(client)
        case 2:
            await read_on(client)
        case 3:
            pass


async def read_on(client: Client) -> None:
    with trio.move_on_after(20):
        while await client.stream.receive_some(65536):
            pass


@pytest.mark.parametrize("seed", range(10))
async def test_broken_connections_leave_the_server_whole(seed: int, autojump_clock: MockClock) -> None:
    rng = random.Random(seed)
    async with front() as server:
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(attack, server, random.Random(rng.random()))
            assert (await server.ask()).status == 200
        server.seen.go_on.set()  # a stream that pauses is the one place where a half-closed client leaves unnoticed
        start = trio.current_time()
    assert trio.current_time() - start < 5  # nothing was left to be cut at the end of the grace period
