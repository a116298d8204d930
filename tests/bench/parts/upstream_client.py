"""Requests a second and CPU per request of the upstream client, beside the same exchange written with h11 over trio.

    python tests/bench/parts/upstream_client.py [--requests 40000] [--concurrency 64]

The server is another process that answers every request at once with a recorded chat completion, so what is measured
is the client alone: the event loop, the sockets and the parsing. Trust the ratio more than the figures: both sides run
interleaved on the same machine, but the machine may be busy. The best of three rounds counts.
"""

import argparse
import multiprocessing
import selectors
import socket
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import h11
import trio

from fibatchd.upstream.client import UpstreamClient

_ANSWER = (Path(__file__).parents[2] / "unit/upstream/recorded/vllm_chat.http").read_bytes()
_BODY = b'{"model":"m","messages":[{"role":"user","content":"%s"}],"max_tokens":64}' % (b"word " * 60)
_PATH = "/v1/chat/completions"

Call = Callable[[], Awaitable[None]]


def serve(ready: Pipe) -> None:
    """Answer whatever arrives: every `recv` holds exactly one request, for the clients here do not pipeline."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    ready.send(listener.getsockname()[1])
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                peer, _ = listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(peer, selectors.EVENT_READ)
                continue
            peer = key.fileobj
            if peer.recv(65536):
                peer.sendall(_ANSWER)
            else:
                selector.unregister(peer)
                peer.close()


async def all_at_once(calls: list[Call], requests: int) -> tuple[float, float]:
    """Spread `requests` over `calls`, each a task. Returns (requests a second, CPU microseconds a request)."""
    left = iter(range(requests))

    async def work(call: Call) -> None:
        for _ in left:
            await call()

    wall, cpu = time.perf_counter(), time.process_time()
    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(work, call)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return requests / wall, cpu / requests * 1e6


async def ours(port: int, requests: int, concurrency: int) -> tuple[float, float]:
    client = UpstreamClient(f"http://127.0.0.1:{port}", max_connections=concurrency)

    async def call() -> None:
        answer = await client.request("POST", _PATH, _BODY, timeout=60, max_body=1 << 20)
        assert answer.status == 200
        assert answer.body.endswith(b"}")

    try:
        await all_at_once([call] * concurrency, concurrency * 10)
        return await all_at_once([call] * concurrency, requests)
    finally:
        await client.aclose()


async def h11_over_trio(port: int, requests: int, concurrency: int) -> tuple[float, float]:
    """The yardstick: what one would write by hand, a kept-alive stream per task and no pool."""
    host = f"127.0.0.1:{port}"
    streams = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(concurrency)]

    def caller(stream: trio.SocketStream) -> Call:
        parser = h11.Connection(h11.CLIENT)
        headers = [("host", host), ("content-type", "application/json"), ("content-length", str(len(_BODY)))]

        async def call() -> None:
            with trio.fail_after(60):
                head = parser.send(h11.Request(method="POST", target=_PATH, headers=headers))
                await stream.send_all(head + parser.send(h11.Data(data=_BODY)) + parser.send(h11.EndOfMessage()))
                body = b""
                while True:
                    event = parser.next_event()
                    if event is h11.NEED_DATA:
                        parser.receive_data(await stream.receive_some(65536))
                    elif isinstance(event, h11.Data):
                        body += event.data
                    elif isinstance(event, h11.EndOfMessage):
                        break
                parser.start_next_cycle()
                assert body.endswith(b"}")

        return call

    try:
        return await all_at_once([caller(stream) for stream in streams], requests)
    finally:
        for stream in streams:
            await stream.aclose()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=40_000)
    options.add_argument("--concurrency", type=int, default=64)
    arguments = options.parse_args()
    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.Process(target=serve, args=(sender,), daemon=True)
    server.start()
    port = receiver.recv()
    best = {"fibatchd": (0.0, 0.0), "h11 over trio": (0.0, 0.0)}
    for _ in range(3):
        for name, run in (("fibatchd", ours), ("h11 over trio", h11_over_trio)):
            best[name] = max(best[name], trio.run(run, port, arguments.requests, arguments.concurrency))
    server.terminate()
    for name, (rate, cpu) in best.items():
        print(f"{name:14} {rate:9,.0f} requests/s  {cpu:6.1f} us CPU a request")
    ours_rate, ours_cpu = best["fibatchd"]
    h11_rate, h11_cpu = best["h11 over trio"]
    print(f"{'ratio':14} {ours_rate / h11_rate:9.1f} x the rate   {h11_cpu / ours_cpu:6.1f} x less CPU")


if __name__ == "__main__":
    main()
