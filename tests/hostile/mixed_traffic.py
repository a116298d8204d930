"""Clients that go on and on: batches of all kinds, files, interactive calls, lists, and clients that leave or send what is wrong.

Each client is one account, and one loop. What it makes it deletes, or leaves to a retention of seconds, so that what is
stored stays the same while the traffic goes on. Every answer is judged: a 5xx, and a result that is not that of its request,
ends the run.
"""

import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
import trio
from daemons import ALL_BUT_CONSOLE, chat

FINAL = {"completed", "failed", "expired", "cancelled", "ended"}
POLL_S = 0.05

CONFIG = (
    """
[storage]
min_free_bytes = 0
[webhooks]
allow_private_addresses = true
retry_base_s = 1
retry_cap_s = 2
event_retention_s = 10
[batches]
retention_s = 10
idempotency_retention_s = 5
max_uploads_per_hour = 1000000
retry_base_s = 0.05
[log]
level = "warning"
[[models]]
id = "m"
concurrency = 64
endpoints = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]
price_usd_per_million = {{ input = "1", output = "2" }}
upstreams = [{{ url = "echo:", endpoints = ["/v1/chat/completions"] }}]
[[models]]
id = "far"
concurrency = 64
upstreams = [{{ url = "{url}/v1" }}]
"""
    + ALL_BUT_CONSOLE
)


class Client:
    """An account that calls the API. `seconds` holds how long calls took, by kind, since they were last taken."""

    def __init__(self, http: httpx2.AsyncClient, chance: random.Random) -> None:
        self.http = http
        self.chance = chance
        self.seconds: list[tuple[str, float]] = []
        self.done: Counter[str] = Counter()

    async def call(
        self, method: str, path: str, *, expect: int = 200, kind: str = "", **options: Any
    ) -> httpx2.Response:
        began = time.monotonic()
        answer = await self.http.request(method, path, **options)
        self.seconds.append((kind or f"{method} {path.split('/')[2]}", time.monotonic() - began))
        assert answer.status_code == expect, (method, path, answer.status_code, answer.text[:300])
        return answer

    async def ended(self, path: str) -> dict[str, Any]:
        """Poll a batch until it is final."""
        with trio.fail_after(300):
            while True:
                batch = (await self.call("GET", path)).json()
                if batch.get("status", batch.get("processing_status")) in FINAL:
                    return dict(batch)
                await trio.sleep(POLL_S)

    def requests(self, count: int) -> list[dict[str, Any]]:
        size = int(10 ** self.chance.uniform(1, 3.5))
        model = self.chance.choice(["m", "far"])
        return [chat(f"q-{n}", f"{n} " + "x" * size, model) for n in range(count)]

    # What clients do. Each is a step that is repeated.

    async def inline_batches(self) -> None:
        items = self.requests(self.chance.choice([1, 10, 200]))
        key = {"idempotency-key": f"k-{self.chance.random()}"} if self.chance.random() < 0.5 else {}
        batch = (await self.call("POST", "/v1/batches", json={"requests": items}, headers=key)).json()
        path = f"/v1/batches/{batch['id']}"
        assert (await self.ended(path))["request_counts"]["completed"] == len(items)
        page = (await self.call("GET", f"{path}/results", params={"limit": 1000})).json()["data"]
        assert {item["custom_id"] for item in page} == {item["custom_id"] for item in items}
        await self.call("GET", f"{path}/output.jsonl")
        if self.chance.random() < 0.5:
            await self.call("DELETE", path)

    async def cancelled_batches(self) -> None:
        batch = (await self.call("POST", "/v1/batches", json={"requests": self.requests(300)})).json()
        await trio.sleep(self.chance.random() * 0.2)
        await self.call("POST", f"/v1/batches/{batch['id']}/cancel")
        await self.ended(f"/v1/batches/{batch['id']}")

    async def file_batches(self) -> None:
        lines = [item | {"method": "POST", "url": "/v1/chat/completions"} for item in self.requests(100)]
        content = "".join(json.dumps(line) + "\n" for line in lines)
        form = {"data": {"purpose": "batch"}, "files": {"file": ("in.jsonl", content)}}
        uploaded = (await self.call("POST", "/v1/files", **form)).json()["id"]
        made = {"input_file_id": uploaded, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        batch = (await self.call("POST", "/v1/batches", json=made)).json()
        ended = await self.ended(f"/v1/batches/{batch['id']}")
        output = await self.call("GET", f"/v1/files/{ended['output_file_id']}/content")
        assert len(output.content.splitlines()) == len(lines)
        for file in (uploaded, ended["output_file_id"]):
            await self.call("DELETE", f"/v1/files/{file}")

    async def message_batches(self) -> None:
        params = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
        items = [{"custom_id": f"q-{n}", "params": params} for n in range(50)]
        headers = {"anthropic-version": "2023-06-01"}
        batch = (await self.call("POST", "/v1/messages/batches", json={"requests": items}, headers=headers)).json()
        await self.ended(f"/v1/messages/batches/{batch['id']}")
        found = await self.call("GET", f"/v1/messages/batches/{batch['id']}/results", headers=headers)
        assert len(found.content.splitlines()) == len(items)

    async def interactive(self) -> None:
        message = {"model": self.chance.choice(["m", "far"]), "messages": [{"role": "user", "content": "hello " * 50}]}
        await self.call("POST", "/v1/chat/completions", json=message, kind="chat")
        await self.call("POST", "/v1/responses", json={"model": "m", "input": "hello"})
        headers = {"anthropic-version": "2023-06-01"}
        await self.call("POST", "/v1/messages", json={"max_tokens": 9, **message, "model": "m"}, headers=headers)

    async def streams(self) -> None:
        """Half of the streams are left after their first bytes."""
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "word " * 200}]}
        if self.chance.random() < 0.5:
            answer = await self.call("POST", "/v1/chat/completions", json=body, kind="stream")
            assert b"[DONE]" in answer.content
            return
        stream = await self.connected("/v1/chat/completions", json.dumps(body).encode())
        assert (await stream.receive_some(65536)).startswith(b"HTTP/1.1 200 ")
        await trio.aclose_forcefully(stream)

    async def lists(self) -> None:
        for path in ("batches", "files", "models", "batch_webhook/events", "messages/batches"):
            headers = {"anthropic-version": "2023-06-01"}
            await self.call("GET", f"/v1/{path}", params={} if path == "models" else {"limit": 100}, headers=headers)

    async def mistakes(self) -> None:
        await self.call("GET", "/v1/nothing", expect=404, kind="mistake")
        await self.call("POST", "/v1/batches", content=b'{"requests":[' * 3, expect=400, kind="mistake")
        await self.call(
            "POST", "/v1/batches", json={"requests": self.requests(200)[1:] * 2}, expect=400, kind="mistake"
        )
        await self.call("GET", "/v1/batches/batch_00000000000000000000000000000000", expect=404, kind="mistake")
        await self.call("POST", "/v1/files", content=b"--x\r\n", headers={"content-type": "multipart/form-data; boundary=x"}, expect=400, kind="mistake")  # fmt: skip

    async def leaving(self) -> None:
        """A client that goes away in the middle of its body, or without waiting for the answer."""
        body = json.dumps({"requests": self.requests(100)}).encode()
        await trio.aclose_forcefully(await self.connected("/v1/batches", body, self.chance.randrange(len(body))))
        await trio.sleep(0.02)

    async def connected(self, path: str, body: bytes, sent: int | None = None) -> trio.SocketStream:
        """A connection on which a call was made, or so many bytes of its body were sent."""
        url = self.http.base_url
        head = f"POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: {self.http.headers['authorization']}\r\ncontent-length: {len(body)}\r\n\r\n"  # fmt: skip
        stream = await trio.open_tcp_stream(url.host, url.port)
        with suppress(trio.BrokenResourceError):
            await stream.send_all(head.encode() + body[:sent])
        return stream


STEPS: list[Callable[[Client], Awaitable[None]]] = [
    Client.inline_batches, Client.inline_batches, Client.cancelled_batches, Client.file_batches, Client.message_batches,
    Client.interactive, Client.streams, Client.lists, Client.mistakes, Client.leaving,
]  # fmt: skip


@asynccontextmanager
async def traffic(base: str, keys: list[str], hook: str, rest_s: float) -> AsyncIterator[list[Client]]:
    """Run a client for each key, over and over its own step with a rest in between, for as long as the block runs."""
    clients = []
    async with trio.open_nursery() as nursery:
        for number, key in enumerate(keys):
            http = httpx2.AsyncClient(base_url=base, headers={"authorization": f"Bearer {key}"}, timeout=120)
            clients.append(client := Client(http, random.Random(number)))
            await client.call("PUT", "/v1/batch_webhook", json={"url": hook})
            nursery.start_soon(_repeat, client, STEPS[number % len(STEPS)], rest_s)
        yield clients
        nursery.cancel_scope.cancel()
    for client in clients:
        await client.http.aclose()


async def _repeat(client: Client, step: Callable[[Client], Awaitable[None]], rest_s: float) -> None:
    while True:
        await step(client)
        client.done[step.__name__] += 1
        await trio.sleep(rest_s)


async def receive_hooks(received: Counter[int], task_status: "trio.TaskStatus[str]" = trio.TASK_STATUS_IGNORED) -> None:
    """A webhook receiver that counts and forgets; one delivery in ten it refuses. Starts with its URL."""

    async def take(stream: trio.SocketStream) -> None:
        status = b"204" if random.random() < 0.9 else b"500"
        received[int(status)] += 1
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.receive_some(65536)
            await stream.send_all(b"HTTP/1.1 %b X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
        await trio.aclose_forcefully(stream)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=256)
    task_status.started(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/hook")
    await trio.serve_listeners(take, listeners)
