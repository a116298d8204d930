"""A model server for tests of the Messages API, in a thread: it speaks chat completions and messages, whole and streamed.

It answers as the last text of the conversation tells it: `error 400` with that status, `hold` once the test lets it,
`slow` after a while, `pad` with `padding`, `tool` with a call of the tool `get_weather`, anything else with that text. `calls` holds what it was sent.
"""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from threaded_server import Handler, Sent, serving

SLOW_S = 0.2
ARGUMENTS = '{"city": "Paris", "days": 3}'
CHAT_USAGE = {
    "prompt_tokens": 30,
    "completion_tokens": 12,
    "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 10},
}
MESSAGE_USAGE = {"input_tokens": 20, "cache_read_input_tokens": 10, "output_tokens": 12}


@dataclass
class ModelServer:
    """A running server."""

    url: str = ""
    calls: list[Sent] = field(default_factory=list)
    padding: str = ""
    let_go: threading.Event = field(default_factory=threading.Event)


class _Handler(Handler):
    model: ModelServer

    def answer(self, sent: Sent) -> None:
        self.model.calls.append(sent)
        request = sent.json
        text = last_text(request)
        if text.startswith("error "):
            message = {"message": f"no: {text}", "type": "x", "param": None, "code": None}
            self.send(json.dumps({"error": message}).encode(), int(text.split()[1]))
            return
        if text == "hold":
            self.model.let_go.wait(60)
        if text == "slow":
            time.sleep(SLOW_S)
        text = self.model.padding if text == "pad" else text
        answers = MESSAGES if self.path.endswith("/messages") else CHAT
        if request.get("stream"):
            self.stream(answers.events(request["model"], text))
        else:
            self.send(json.dumps(answers.whole(request["model"], text)).encode())


def last_text(request: dict[str, Any]) -> str:
    content = request["messages"][-1]["content"]
    if isinstance(content, list):
        texts = [part["text"] for part in content if part.get("type") == "text"]
        return texts[-1] if texts else ""
    return str(content)


class CHAT:
    """Answers of a chat-completions server."""

    @staticmethod
    def whole(model: str, text: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        finish = "stop"
        if text == "tool":
            call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
            message, finish = {"role": "assistant", "content": "Looking.", "tool_calls": [call]}, "tool_calls"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": model,
            "choices": [choice],
            "usage": CHAT_USAGE,
        }

    @staticmethod
    def events(model: str, text: str) -> list[bytes]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        finish = "stop"
        if text == "tool":
            finish = "tool_calls"
            function = {"name": "get_weather", "arguments": ""}
            deltas += [{"content": "Looking."}, {"tool_calls": [{"index": 0, "id": "call_1", "function": function}]}]
            pieces = [ARGUMENTS[:9], ARGUMENTS[9:]]
            deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
        else:
            deltas += [{"content": word} for word in re.findall(r"\s*\S+|\s+", text)]
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]
        chunks += [{"choices": [], "usage": CHAT_USAGE}]
        common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model}
        return [*[b"data: " + json.dumps(common | chunk).encode() + b"\n\n" for chunk in chunks], b"data: [DONE]\n\n"]


class MESSAGES:
    """Answers of a messages server."""

    @staticmethod
    def whole(model: str, text: str) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": text}]
        stop = "end_turn"
        if text == "tool":
            call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": json.loads(ARGUMENTS)}
            content, stop = [{"type": "text", "text": "Looking."}, call], "tool_use"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content}
        return message | {"stop_reason": stop, "stop_sequence": None, "usage": MESSAGE_USAGE}

    @classmethod
    def events(cls, model: str, text: str) -> list[bytes]:
        message = cls.whole(model, text)
        blocks, message["content"] = message["content"], []
        delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        message |= {"stop_reason": None, "usage": MESSAGE_USAGE | {"output_tokens": 1}}
        found = [{"type": "message_start", "message": message}, {"type": "ping"}]
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                start, change = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                start = block | {"input": {}}
                change = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            found.append({"type": "content_block_start", "index": index, "content_block": start})
            found.append({"type": "content_block_delta", "index": index, "delta": change})
            found.append({"type": "content_block_stop", "index": index})
        found += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 12}}, {"type": "message_stop"}]
        return [b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in found]


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Run one for as long as the block does."""
    model = ModelServer()
    with serving(type("Handler", (_Handler,), {"model": model})) as model.url:
        try:
            yield model
        finally:
            model.let_go.set()
