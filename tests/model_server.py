"""A model server for tests, in a process of its own: chat completions whose answer is a function of the request and a
nonce, a log of all it was asked, and faults by rule.

    python model_server.py [--port 0] [--delay 0.1] [--jitter 0.2]      prints its port

POST /control   {"rules": [{"match": text, "times": n, "action": {…}}], "delay": s, "others": n}; replaces what was set
GET  /log       [{"n", "at", "path", "model", "content", "action", "answer"}]
GET  /stats     {"in_flight": {model: n}, "max_in_flight": {model: n}, "asked": n}
GET  /metrics   as vLLM's: the requests in flight, and those of `others`

A request is in flight from its arrival until its answer is ready, or its client's connection is gone, which is noticed at
once.

An action is one of: {"status": 503, "headers": {…}, "body": text}, {"close": "before" | "reset" | "head" | "half"},
{"body": text} (with status 200), {"big": characters}, {"hang": true}, {"hold": true} (until the next POST /control),
{"delay": s}, {"pause": s} (before each event). A rule matches where its text occurs in the model's name or the last message.
"""

import argparse
import json
import math
import random
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import trio

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class ModelServer:
    def __init__(self, delay: float, jitter: float) -> None:
        self.delay = delay
        self.jitter = jitter
        self.others = 0
        self.rules: list[dict[str, Any]] = []
        self.log: list[dict[str, Any]] = []
        self.held: set[trio.CancelScope] = set()
        self.in_flight: Counter[str] = Counter()
        self.max_in_flight: Counter[str] = Counter()

    async def connection(self, stream: trio.SocketStream) -> None:
        held = b""
        try:
            while True:
                while b"\r\n\r\n" not in held:
                    if not (data := await stream.receive_some(65536)):
                        return
                    held += data
                head, _, held = held.partition(b"\r\n\r\n")
                length = int(match[1]) if (match := LENGTH.search(head)) else 0
                while len(held) < length:
                    if not (data := await stream.receive_some(1 << 20)):
                        return
                    held += data
                body, held = held[:length], held[length:]
                method, path, _ = head.split(b" ", 2)
                if not await self.answer(stream, method.decode(), path.decode(), body):
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            with trio.CancelScope(shield=True):
                await stream.aclose()

    async def answer(self, stream: trio.SocketStream, method: str, path: str, body: bytes) -> bool:
        """Answer one request; False where the connection is to be closed."""
        if path == "/control":
            given = json.loads(body)
            self.rules = given.get("rules", self.rules)
            self.delay = given.get("delay", self.delay)
            self.others = given.get("others", self.others)
            for scope in self.held:
                scope.cancel()
            await send(stream, 200, b"{}")
        elif path == "/metrics":
            count = self.in_flight.total() + self.others
            page = (
                f'vllm:num_requests_running{{model_name="m"}} {count}\nvllm:num_requests_waiting{{model_name="m"}} 0\n'
            )
            await send(stream, 200, page.encode(), {"content-type": "text/plain"})
        elif path == "/log":
            await send(stream, 200, json.dumps(self.log).encode())
        elif path == "/stats":
            stats = {"in_flight": self.in_flight, "max_in_flight": self.max_in_flight, "asked": len(self.log)}
            await send(stream, 200, json.dumps(stats).encode())
        else:
            return await self.complete(stream, path, json.loads(body))
        return True

    async def complete(self, stream: trio.SocketStream, path: str, request: dict[str, Any]) -> bool:
        model = request["model"]
        content = str(request["messages"][-1]["content"]) if "messages" in request else json.dumps(request.get("input"))
        action = self.action(model, content)
        entry = {"n": len(self.log), "at": time.time(), "path": path, "model": model, "content": content}
        entry |= {"action": action, "answer": None}
        self.log.append(entry)
        with self.counted(model):
            delay = action.get("delay", self.delay)
            wait = math.inf if action.get("hang") else delay * random.uniform(1 - self.jitter, 1 + self.jitter)
            if action.get("hold"):
                left = await self.hold(stream)
            else:
                left = bool(wait) and await client_left(stream, wait)
            if left:
                return False
        # What follows may reach the client before this task runs again, and the client ask anew on another connection.
        return await self.act(stream, request, content, action, entry)

    async def hold(self, stream: trio.SocketStream) -> bool:
        """Wait until all that is held is let go; whether the client closed its connection meanwhile."""
        with trio.CancelScope() as scope:
            self.held.add(scope)
            try:
                return await client_left(stream, math.inf)
            finally:
                self.held.discard(scope)
        return False

    @contextmanager
    def counted(self, model: str) -> Iterator[None]:
        self.in_flight[model] += 1
        self.max_in_flight[model] = max(self.max_in_flight[model], self.in_flight[model])
        try:
            yield
        finally:
            self.in_flight[model] -= 1

    def action(self, model: str, content: str) -> dict[str, Any]:
        for rule in self.rules:
            if (rule["match"] in content or rule["match"] in model) and rule.get("times", 1 << 30) > 0:
                rule["times"] = rule.get("times", 1 << 30) - 1
                return dict(rule["action"])
        return {}

    def answer_to(self, request: dict[str, Any], content: str, entry: dict[str, Any]) -> bytes:
        """The body of a success."""
        if entry["path"].endswith("/rerank"):
            return json.dumps(ranking(request)).encode()
        return json.dumps(completion(request["model"], content, entry["n"])).encode()

    async def act(
        self, stream: trio.SocketStream, request: Any, content: str, action: dict[str, Any], entry: Any
    ) -> bool:
        if action.get("close") == "before":
            return False
        if action.get("close") == "reset":
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        body = self.answer_to(request, content, entry)
        if "body" in action:
            body = action["body"].encode()
        elif "big" in action:
            body = json.dumps(completion(request["model"], "x" * action["big"], entry["n"])).encode()
        if action.get("close") in ("head", "half"):
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            await stream.send_all(head + (body[: len(body) // 2] if action["close"] == "half" else b""))
            return False
        status = action.get("status", 200)
        if status == 200:
            entry["answer"] = body.decode()
        elif "body" not in action:
            body = json.dumps({"error": {"message": f"told to answer {status}", "type": "x", "code": None}}).encode()
        if request.get("stream") and status == 200:
            await self.stream(stream, request["model"], content, entry["n"], action.get("pause", 0.0))
        else:
            await send(stream, status, body, action.get("headers", {}))
        return True

    async def stream(self, stream: trio.SocketStream, model: str, content: str, n: int, pause: float) -> None:
        await stream.send_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        whole = completion(model, content, n)
        common = {"id": whole["id"], "object": "chat.completion.chunk", "created": 1, "model": model}
        words = whole["choices"][0]["message"]["content"].split(" ")
        for word in words:
            await trio.sleep(pause)
            delta = {"choices": [{"index": 0, "delta": {"content": word + " "}, "finish_reason": None}]}
            await event(stream, json.dumps(common | delta | {"sent_at": time.time()}))
        await event(stream, json.dumps(common | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
        await event(stream, json.dumps(common | {"choices": [], "usage": whole["usage"]}))
        await event(stream, "[DONE]")
        await stream.send_all(b"0\r\n\r\n")


async def client_left(stream: trio.SocketStream, wait: float) -> bool:
    """Wait so long; whether the client closed its connection meanwhile."""
    with trio.move_on_after(wait):
        await trio.lowlevel.wait_readable(stream.socket)
        with suppress(OSError):
            if await stream.socket.recv(1, socket.MSG_PEEK):  # its next request, sent ahead
                await trio.sleep_forever()
        return True
    return False


def completion(model: str, content: str, n: int) -> dict[str, Any]:
    """The answer to a request that was the n-th: it says what was asked, and n."""
    return {
        "id": f"chatcmpl-{n}",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": f"{content} #{n}"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def ranking(request: dict[str, Any]) -> dict[str, Any]:
    """An answer of a reranker: the longest document first."""
    order = sorted(range(len(request["documents"])), key=lambda index: -len(request["documents"][index]))
    results = [{"index": index, "relevance_score": 0.5} for index in order]
    return {"id": "rerank-1", "model": request["model"], "results": results, "usage": {"total_tokens": 3}}


async def event(stream: trio.SocketStream, data: str) -> None:
    text = f"data: {data}\n\n".encode()
    await stream.send_all(b"%x\r\n%b\r\n" % (len(text), text))


async def send(stream: trio.SocketStream, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    lines = "".join(
        f"{name}: {value}\r\n" for name, value in ({"content-type": "application/json"} | (headers or {})).items()
    )
    await stream.send_all(f"HTTP/1.1 {status} X\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--jitter", type=float, default=0.0)
    args = parser.parse_args()
    server = ModelServer(args.delay, args.jitter)
    listeners = await trio.open_tcp_listeners(args.port, host="127.0.0.1", backlog=1024)
    print(listeners[0].socket.getsockname()[1], flush=True)
    await trio.serve_listeners(server.connection, listeners)


if __name__ == "__main__":
    trio.run(main)
