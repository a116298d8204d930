"""A model server that outlives every daemon: it writes down each attempt and its end, and fails at random, from a seed.

    python -m history.upstream FOLDER SEED FAULTS      prints its port; FAULTS is the part of all attempts that fail

Each request names itself (`work.NAME`), each answer says whom it answers and its number, and the number decides what it
counts: so an answer that went to the wrong request, twice or not at all shows in the results and in every sum.

Outcomes: "answered"; "refused" with its `status`; "broken", the answer was no good; "lost", the connection ended;
"left", the client went first.
"""

import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

import trio
from model_server import ModelServer, client_left, completion

from history.record import History
from history.work import name_in

DELAYS = {"fast": 0.02, "slow": 0.4}
"""About how long each model takes; a name that stands in the model's."""

FAULTS: list[tuple[int, dict[str, Any]]] = [
    (3, {"status": 503}),
    (3, {"status": 500}),
    (2, {"status": 429}),
    (1, {"status": 429, "headers": {"retry-after": "1"}}),
    (2, {"status": 400}),
    (1, {"status": 404}),
    (1, {"status": 401}),
    (1, {"status": 408}),
    (1, {"status": 504}),
    (2, {"close": "before"}),
    (2, {"close": "reset"}),
    (1, {"close": "head"}),
    (1, {"close": "half"}),
    (1, {"body": "<html>Bad gateway</html>"}),
    (1, {"body": '{"choices": [NaN]}'}),
    (1, {"big": 300_000}),
    (1, {"hang": True}),
]
"""The weights and actions of tests/model_server.py."""


def usage_of(n: int) -> tuple[int, int]:
    """What the n-th attempt counts: input and output tokens."""
    return 10 + n % 13, 5 + n % 7


class RecordingServer(ModelServer):
    def __init__(self, history: History, chance: random.Random, faults: float) -> None:
        super().__init__(delay=0.0, jitter=0.9)
        self.history = history
        self.chance = chance
        self.faults = faults
        self.asked = 0

    async def complete(self, stream: trio.SocketStream, path: str, request: dict[str, Any]) -> bool:
        n, self.asked = self.asked, self.asked + 1
        who = name_in(json.dumps(request))
        self.history.note("attempt", n=n, who=who, model=request["model"])
        self.delay = next(seconds for name, seconds in DELAYS.items() if name in request["model"])
        entry: dict[str, Any] = {"n": n, "path": path, "content": who, "outcome": "left"}
        try:
            return await self._complete(stream, request, entry)
        finally:
            told = {name: entry[name] for name in ("outcome", "status", "answer", "usage") if name in entry}
            self.history.note("attempt_ended", at=entry.get("over"), n=n, **told)

    async def _complete(self, stream: trio.SocketStream, request: dict[str, Any], entry: dict[str, Any]) -> bool:
        action = self._drawn()
        wait = math.inf if action.get("hang") else self.delay * self.chance.uniform(0.1, 1.9)
        with self.counted(request["model"]):
            if await client_left(stream, wait):
                return False
        # The client may have the answer, and ask anew, before this task runs again.
        entry |= {"over": time.monotonic()} | _ending(action)
        if "big" in action:
            entry["usage"] = (10, 5)  # too large for a result, not for an interactive call
        if entry["outcome"] == "answered":
            entry["usage"] = usage_of(entry["n"])
            entry["answer"] = self.answer_to(request, entry["content"], entry).decode()
        return await self.act(stream, request, entry["content"], action, entry)

    def _drawn(self) -> dict[str, Any]:
        if self.chance.random() >= self.faults:
            return {}
        return self.chance.choices([action for _, action in FAULTS], [weight for weight, _ in FAULTS])[0]

    def answer_to(self, request: dict[str, Any], content: str, entry: dict[str, Any]) -> bytes:
        given, out = usage_of(entry["n"])
        if entry["path"].endswith("/embeddings"):
            vector = {"object": "embedding", "index": 0, "embedding": [float(entry["n"]), 0.5]}
            usage = {"prompt_tokens": given, "total_tokens": given}
            whole = {"object": "list", "data": [vector], "model": request["model"], "usage": usage}
        else:
            usage = {"prompt_tokens": given, "completion_tokens": out, "total_tokens": given + out}
            whole = completion(request["model"], content, entry["n"]) | {"usage": usage}
        return json.dumps(whole).encode()


def _ending(action: dict[str, Any]) -> dict[str, Any]:
    if "close" in action:
        return {"outcome": "lost"}
    if "status" in action:
        return {"outcome": "refused", "status": action["status"]}
    return {"outcome": "broken"} if action else {"outcome": "answered"}


async def main(folder: str, seed: str, faults: str) -> None:
    server = RecordingServer(History(Path(folder) / "upstream.jsonl"), random.Random(int(seed)), float(faults))
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1024)
    print(listeners[0].socket.getsockname()[1], flush=True)
    await trio.serve_listeners(server.connection, listeners)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
