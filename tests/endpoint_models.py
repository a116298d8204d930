"""A model server for tests of embeddings and Responses, in a thread: floats only, chat completions, and responses of its own.

It embeds a text as a function of it, in floats whatever it is asked, over several lines. It chats as the last text tells it:
`tool` with a call of the first tool, `refuse` with a refusal, `long` cut short, `break` cut off while streaming; JSON where a
format wants it; anything else is said back. `calls` holds what it was sent.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from threaded_server import Handler, Sent, serving

ARGUMENTS = '{"city": "Paris"}'
JSON_ANSWER = '{"answer": 42, "why": "because"}'
CHAT_USAGE = {
    "prompt_tokens": 30,
    "completion_tokens": 12,
    "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
RESPONSE_USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 0},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 42,
}
TOKENS = 7
"""What every input of an embedding request counts."""


@dataclass
class ModelServer:
    """A running server."""

    url: str = ""
    calls: list[Sent] = field(default_factory=list)


class _Handler(Handler):
    model: ModelServer

    def answer(self, sent: Sent) -> None:
        self.model.calls.append(sent)
        request = sent.json
        if self.path == "/v1/embeddings":
            self.send(embeddings(request))
        elif self.path == "/v1/responses":
            self.stream(response_events(request)) if request.get("stream") else self.send(encoded(response(request)))
        else:
            self.stream(chat_events(request)) if request.get("stream") else self.send(encoded(completion(request)))


def encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def vector(text: Any, dimensions: int = 8) -> list[float]:
    """What the server makes of an input: doubles with all their digits."""
    digest = hashlib.shake_256(json.dumps(text).encode()).digest(dimensions * 6)
    return [int.from_bytes(digest[n : n + 6], "big", signed=True) / 2**47 for n in range(0, len(digest), 6)]


def embeddings(request: dict[str, Any]) -> bytes:
    given = request["input"]
    inputs = [given] if isinstance(given, str) or isinstance(given[0], int) else given
    vectors = [vector(one, request.get("dimensions", 8)) for one in inputs]
    data = [{"object": "embedding", "index": n, "embedding": found} for n, found in enumerate(vectors)]
    usage = {"prompt_tokens": TOKENS * len(inputs), "total_tokens": TOKENS * len(inputs)}
    return json.dumps({"object": "list", "data": data, "model": request["model"], "usage": usage}, indent=1).encode()


def last_text(messages: list[dict[str, Any]]) -> str:
    content = messages[-1]["content"] or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _said(request: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A message, and why it ends."""
    text = last_text(request["messages"])
    if request.get("response_format", {}).get("type") == "json_schema":
        return {"content": JSON_ANSWER}, "stop"
    if text == "tool":
        function = {"name": request["tools"][0]["function"]["name"], "arguments": ARGUMENTS}
        return {
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }, "tool_calls"
    if text == "refuse":
        return {"content": None, "refusal": "I will not."}, "stop"
    return {"content": f"You said: {text}"}, "length" if text == "long" else "stop"


def _logprobs(request: dict[str, Any], text: str | None) -> dict[str, Any] | None:
    if not request.get("logprobs") or not text:
        return None
    token = {"token": text, "logprob": -0.25, "bytes": list(text.encode())}
    return {"content": [token | {"top_logprobs": [token] * request["top_logprobs"]}], "refusal": None}


def completion(request: dict[str, Any]) -> dict[str, Any]:
    message, reason = _said(request)
    logprobs = _logprobs(request, message["content"])
    choice = {"index": 0, "message": {"role": "assistant"} | message, "logprobs": logprobs, "finish_reason": reason}
    common = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1795000000, "model": request["model"]}
    return common | {"choices": [choice], "usage": CHAT_USAGE}


def chat_events(request: dict[str, Any]) -> list[bytes]:
    message, reason = _said(request)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    text = message.get("content") or ""
    deltas += [{"content": text[n : n + 4]} for n in range(0, len(text), 4)]
    deltas += [{"refusal": message["refusal"]}] if "refusal" in message else []
    for call in message.get("tool_calls", ()):
        deltas.append({"tool_calls": [call | {"index": 0, "function": call["function"] | {"arguments": ""}}]})
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in ARGUMENTS]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795000000, "model": request["model"]}
    chunks = [common | {"choices": [choice]} for choice in choices] + [common | {"choices": [], "usage": CHAT_USAGE}]
    events = [b"data: " + encoded(chunk) + b"\n\n" for chunk in chunks]
    if last_text(request["messages"]) == "break":
        return [*events[:2], b""]
    return [*events, b"data: [DONE]\n\n"]


def response(request: dict[str, Any]) -> dict[str, Any]:
    """A response of the server's own, with a member that no client knows."""
    text = {"type": "output_text", "text": f"Native: {request['input']}", "annotations": []}
    item = {"id": "msg_up", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "resp_up", "object": "response", "created_at": 1795000000, "status": "completed", "model": request["model"],
        "output": [item], "usage": RESPONSE_USAGE, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "store": request["store"], "kv_transfer_params": 1.5,
    }  # fmt: skip


def response_events(request: dict[str, Any]) -> list[bytes]:
    whole = response(request)
    begun = whole | {"status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    item = whole["output"][0]
    part = item["content"][0]
    at = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    events.append({"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}})
    events.append({"type": "response.content_part.added", **at, "part": part | {"text": ""}})
    pieces = part["text"][:8], part["text"][8:]
    events += [{"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []} for piece in pieces]
    events.append({"type": "response.completed", "response": whole})
    return [
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encoded(event | {"sequence_number": n}))
        for n, event in enumerate(events)
    ]


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Run one for as long as the block does."""
    model = ModelServer()
    with serving(type("Handler", (_Handler,), {"model": model})) as model.url:
        yield model
