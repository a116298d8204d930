"""How many tiny requests a second the guarded front end answers on one core, against hypercorn as it comes.

    python tests/bench/parts/front_end.py [--seconds 5] [--connections 16]

The server runs in a process of its own; the load comes from this one, over kept-alive connections, each with one request
at a time. Printed: requests a second of wall time, and the server's CPU time a request.
"""

import argparse
import multiprocessing
import time
from functools import partial
from multiprocessing.connection import Connection as Pipe

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as stock_serve
from quart_trio import QuartTrio

from fibatchd.web.guards import GuardedQuart
from fibatchd.web.listeners import open_listeners
from fibatchd.web.server import serve

GET = b"GET / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer x\r\nuser-agent: bench\r\naccept: application/json\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n" + b"x" * 1000


def make_app(quart_class: type[QuartTrio]) -> QuartTrio:
    from quart import request

    app = quart_class("bench")

    @app.get("/")
    async def get() -> dict[str, bool]:
        return {"ok": True}

    @app.post("/")
    async def post() -> dict[str, int]:
        return {"size": len(await request.get_data())}

    return app


def run_server(guarded: bool, pipe: Pipe) -> None:
    """Tell the port, then twice, when asked, the CPU seconds spent so far; then end."""

    async def main() -> None:
        shutdown = trio.Event()
        listeners = await open_listeners(["127.0.0.1:0"])
        port = listeners[0].socket.getsockname()[1]
        config = Config()
        config.bind = [f"fd://{listeners[0].socket.fileno()}"]
        config.errorlog = None
        async with trio.open_nursery() as nursery:
            if guarded:
                run = partial(serve, make_app(GuardedQuart), listeners, shutdown=shutdown)
            else:
                run = partial(stock_serve, make_app(QuartTrio), config, shutdown_trigger=shutdown.wait)
            await nursery.start(run)
            pipe.send(port)
            for _ in range(2):
                await trio.to_thread.run_sync(pipe.recv)
                pipe.send(time.process_time())
            shutdown.set()

    trio.run(main)


async def load(port: int, request: bytes, connections: int, seconds: float) -> int:
    """The number of answers that came in `seconds`."""
    answers = 0

    async def one() -> None:
        nonlocal answers
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            while True:
                await stream.send_all(request)
                received = b""
                while not received.endswith(b"}\n"):
                    received += await stream.receive_some(65536)
                answers += 1

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for _ in range(connections):
                nursery.start_soon(one)
    return answers


def measure(guarded: bool, request: bytes, connections: int, seconds: float) -> str:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=run_server, args=(guarded, there))
    server.start()
    port = here.recv()
    trio.run(load, port, request, connections, 0.5)
    before = cpu_of(here)
    answers = trio.run(load, port, request, connections, seconds)
    cpu = cpu_of(here) - before
    server.join()
    return f"{answers / seconds:6.0f} requests/s, {cpu / answers * 1e6:5.0f} us of CPU a request"


def cpu_of(pipe: Pipe) -> float:
    pipe.send(None)
    return float(pipe.recv())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    for name, request in (("GET", GET), ("POST 1 kB", POST)):
        for guarded in (False, True):
            kind = "guarded" if guarded else "stock"
            print(f"{name:10}{kind:8}", measure(guarded, request, options.connections, options.seconds))


if __name__ == "__main__":
    main()
