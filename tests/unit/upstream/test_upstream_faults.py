"""A server that answers in every way a server can be wrong, over real sockets: what the caller is told, each time.

Whatever happens, one of the five errors leaves the client, and the same client's next request is answered.
"""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from answers import BROKEN, GOOD
from scripted_server import RECORDED, Peer, read_with_h11, scripted_server, settle

from fibatchd.errors import AnswerBroken, ConnectionLost, UpstreamError
from fibatchd.upstream.client import UpstreamClient

FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"


async def exchange(message: bytes, *, cuts: list[int] | None = None, with_reset: bool = False) -> tuple[int, bytes]:
    """Let a server answer with `message` and close or reset the connection. The next request must be answered well."""
    edges = [0, *(cuts or []), len(message)]
    pieces = [message[start:end] for start, end in pairwise(edges) if start != end]

    async def script(peer: Peer) -> None:
        request = await peer.request()
        if request is not None and request[1] == b"next":
            await peer.send(FINE)
        elif request is not None:
            await peer.send(*pieces)
            if with_reset:
                peer.reset()

    outcome: tuple[int, bytes] | UpstreamError
    async with scripted_server(script) as server:
        client = UpstreamClient(server.url, max_connections=1)
        try:
            answer = await client.request("POST", "/", b"{}", timeout=60, max_body=1 << 20)
            outcome = answer.status, answer.body
        except UpstreamError as error:
            outcome = error
        await settle()  # the server has closed
        assert (await client.request("POST", "/", b"next", timeout=60, max_body=99)).body == b"fine"
        await settle()
        assert client._pool.in_use == 0
        await client.aclose()
    if isinstance(outcome, UpstreamError):
        raise outcome
    return outcome


def truncations() -> Iterator[tuple[str, int, bool]]:
    """Every recorded answer, cut at a dozen places from its first byte to its last but one; half end with a reset."""
    for name, message in RECORDED.items():
        for number in range(12):
            yield name, number * (len(message) - 1) // 11, number % 2 == 1


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_answer(name: str) -> None:
    with pytest.raises(AnswerBroken):
        await exchange(BROKEN[name])


@pytest.mark.parametrize("name", GOOD)
async def test_good_answer_byte_by_byte(name: str) -> None:
    message, status, body, *_ = GOOD[name]
    assert await exchange(message, cuts=list(range(1, len(message)))) == (status, body)


@pytest.mark.parametrize("name", RECORDED)
async def test_recorded_answer(name: str) -> None:
    message = RECORDED[name]
    assert await exchange(message) == read_with_h11(message)


@pytest.mark.parametrize(("name", "length", "with_reset"), list(truncations()))
async def test_recorded_answer_cut_short(name: str, length: int, with_reset: bool) -> None:
    message = RECORDED[name][:length]
    with pytest.raises(ConnectionLost):
        await exchange(message, cuts=[length // 2], with_reset=with_reset)


@pytest.mark.parametrize("name", [name for name, good in GOOD.items() if b"\r\n\r\nhi" in good[0] and not good[3]])
async def test_close_delimited_answer_must_not_end_with_a_reset(name: str) -> None:
    """A reset is no end of a body: what came before it may not be all."""
    with pytest.raises(ConnectionLost):
        await exchange(GOOD[name][0], with_reset=True)


@pytest.mark.parametrize("extra", [b"x", b"HTTP/1.1 200 OK\r\n", FINE])
async def test_answer_with_more_after_it_stands(extra: bytes) -> None:
    assert await exchange(GOOD["length"][0] + extra) == (200, b"hi")


async def test_silence_and_close() -> None:
    with pytest.raises(ConnectionLost):
        await exchange(b"")


async def test_head_without_an_end() -> None:
    with pytest.raises(AnswerBroken):
        await exchange(b"HTTP/1.1 200 OK\r\n" + b"X-Pad: 0123456789abcdef\r\n" * 20_000)
