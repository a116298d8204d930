"""The bare loop: what anyone would write by hand to send bodies to a server as fast as trio and a parser allow.

    python tests/bench/frame/yardstick.py h11|httptools PORT CONCURRENCY BODIES      prints {"seconds": …, "cpu_s": …}

One kept-alive connection for each of `CONCURRENCY` tasks; no pool, no time-out, no retry, nothing stored, answers thrown away.
`BODIES` is a file with a body on each line. The figures are ratios to the form with h11; the one with httptools, which is
written in C, shows what the sockets and the event loop alone take.
"""

import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h11
import httptools
import trio

_PATH = "/v1/chat/completions"
_READ = 65536

Ask = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True)
class Bare:
    """What the bare loop did: its rate in requests a second, its CPU time in microseconds a request."""

    rate: float
    cpu_us: float


def bare_loop(parser: str, port: int, concurrency: int, bodies: Path) -> Bare:
    """Run the loop in a process of its own."""
    command = [sys.executable, __file__, parser, str(port), str(concurrency), str(bodies)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return Bare(told["requests"] / told["seconds"], told["cpu_s"] / told["requests"] * 1e6)


def with_h11(stream: trio.SocketStream, host: str) -> Ask:
    """Return what sends one body and waits for its answer."""
    parser = h11.Connection(h11.CLIENT)

    async def ask(body: bytes) -> None:
        headers = [("host", host), ("content-type", "application/json"), ("content-length", str(len(body)))]
        head = parser.send(h11.Request(method="POST", target=_PATH, headers=headers)) or b""
        rest = (parser.send(h11.Data(data=body)) or b"") + (parser.send(h11.EndOfMessage()) or b"")
        await stream.send_all(head + rest)
        status, received = 0, bytearray()
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(await stream.receive_some(_READ))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                received += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
        assert (status, received[-1:]) == (200, b"}")
        parser.start_next_cycle()

    return ask


class _Collector:
    """What httptools calls with what it has read."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.complete = False

    def on_body(self, data: bytes) -> None:
        self.received += data

    def on_message_complete(self) -> None:
        self.complete = True


def with_httptools(stream: trio.SocketStream, host: str) -> Ask:
    """Return what sends one body and waits for its answer."""
    head = f"POST {_PATH} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: ".encode()
    collector = _Collector()
    parser = httptools.HttpResponseParser(collector)

    async def ask(body: bytes) -> None:
        collector.received.clear()
        collector.complete = False
        await stream.send_all(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        while not collector.complete:
            parser.feed_data(await stream.receive_some(_READ))
        assert (parser.get_status_code(), collector.received[-1:]) == (200, b"}")

    return ask


async def run(form: Callable[[trio.SocketStream, str], Ask], port: int, concurrency: int, bodies: list[bytes]) -> None:
    """Send all bodies, and print how long that took."""
    left: Iterator[bytes] = iter(bodies)
    streams = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(concurrency)]

    async def work(ask: Ask) -> None:
        for body in left:
            await ask(body)

    wall, cpu = time.perf_counter(), time.process_time()
    async with trio.open_nursery() as nursery:
        for stream in streams:
            nursery.start_soon(work, form(stream, f"127.0.0.1:{port}"))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"requests": len(bodies), "seconds": wall, "cpu_s": cpu}))


if __name__ == "__main__":
    forms = {"h11": with_h11, "httptools": with_httptools}
    trio.run(run, forms[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]).read_bytes().splitlines())
