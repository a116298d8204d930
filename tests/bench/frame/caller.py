"""Another client, a process of its own, that makes interactive calls at random moments and notes how long each took.

    python tests/bench/frame/caller.py PORT KEY MODEL AT_ONCE CALLS PAUSE_S STREAM      prints seconds, as a JSON array

`AT_ONCE` callers, each on a connection of its own, call and wait up to `PAUSE_S`, `CALLS` times together. A streamed call
(`STREAM` is 1) is timed until its first event, another until its answer is whole.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator


def call(
    port: int, key: str, model: str, *, at_once: int, calls: int, pause_s: float, stream: bool = False
) -> list[float]:
    """Make the calls, and return how many seconds each took."""
    words = [str(port), key, model, str(at_once), str(calls), str(pause_s), str(int(stream))]
    done = subprocess.run([sys.executable, __file__, *words], check=True, capture_output=True, text=True)
    found: list[float] = json.loads(done.stdout)
    return found


def _request(key: str, model: str, stream: bool) -> bytes:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}]} | ({"stream": True} if stream else {})
    text = json.dumps(body, separators=(",", ":")).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n"
    return b"%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (head.encode(), len(text), text)


async def _calls(port: int, request: bytes, stream: bool, left: Iterator[int], pause_s: float) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    ask = _first_event if stream else _whole
    found = []
    for _ in left:
        await asyncio.sleep(random.uniform(0, pause_s))
        began = time.perf_counter()
        writer.write(request)
        answered = await ask(reader)
        found.append(answered - began)
        if stream:
            await reader.readuntil(b"0\r\n\r\n")
    writer.close()
    return found


async def _first_event(reader: asyncio.StreamReader) -> float:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    await reader.readuntil(b"data: ")
    return time.perf_counter()


async def _whole(reader: asyncio.StreamReader) -> float:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))
    return time.perf_counter()


async def _run(port: int, request: bytes, at_once: int, calls: int, pause_s: float, stream: bool) -> None:
    left = iter(range(calls))
    found = await asyncio.gather(*(_calls(port, request, stream, left, pause_s) for _ in range(at_once)))
    print(json.dumps([seconds for calls_of_one in found for seconds in calls_of_one]))


if __name__ == "__main__":
    port, key, model, at_once, calls, pause_s, stream = sys.argv[1:]
    sent = _request(key, model, stream == "1")
    asyncio.run(_run(int(port), sent, int(at_once), int(calls), float(pause_s), stream == "1"))
