"""An upstream's client that answers as a test says, and notes what it was asked and when, by trio's clock."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from fibatchd.errors import ConnectFailed
from fibatchd.upstream.answer import Answer

Behaviour = Callable[[str], Awaitable[Answer]]


def success() -> Answer:
    body = {
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
    return Answer(200, {}, json.dumps(body).encode())


def after(seconds: float) -> Behaviour:
    async def answer(_prompt: str) -> Answer:
        await trio.sleep(seconds)
        return success()

    return answer


def refusing(status: int, **headers: str) -> Behaviour:
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}

    async def answer(_prompt: str) -> Answer:
        await trio.sleep(0.05)
        return Answer(status, sent, b"{}")

    return answer


async def unreachable(_prompt: str) -> Answer:
    raise ConnectFailed("refused")


class Upstream:
    """`behaviour` is given the prompt of each request."""

    def __init__(self) -> None:
        self.behaviour: Behaviour = after(0.1)
        self.asked: list[tuple[float, str]] = []
        self.running: Counter[str] = Counter()
        self.most = 0

    async def request(self, _method: str, _path: str, body: bytes = b"", **_: Any) -> Answer:
        prompt = json.loads(body)["messages"][-1]["content"]
        self.asked.append((trio.current_time(), prompt))
        word = prompt.split()[0]
        self.running[word] += 1
        self.most = max(self.most, self.running.total())
        try:
            return await self.behaviour(prompt)
        finally:
            self.running[word] -= 1

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    def between(self, first: float, last: float) -> list[str]:
        """Return the prompts that were asked in this time."""
        return [prompt for at, prompt in self.asked if first <= at < last]
