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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
class Sent:
    """One request as it came: path, headers in lower case, body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


@dataclass
class ModelServer:
    """A running server."""

    url: str = ""
    calls: list[Sent] = field(default_factory=list)
    padding: str = ""
    let_go: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: ModelServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.model.calls.append(Sent(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        request = json.loads(body)
        text = last_text(request)
        if text.startswith("error "):
            message = {"message": f"no: {text}", "type": "x", "param": None, "code": None}
            self._send(int(text.split()[1]), "application/json", json.dumps({"error": message}).encode())
            return
        if text == "hold":
            self.model.let_go.wait(60)
        if text == "slow":
            time.sleep(SLOW_S)
        text = self.model.padding if text == "pad" else text
        answers = MESSAGES if self.path.endswith("/messages") else CHAT
        if request.get("stream"):
            self._stream(answers.events(request["model"], text))
        else:
            self._send(200, "application/json", json.dumps(answers.whole(request["model"], text)).encode())

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Run one for as long as the block does."""
    model = ModelServer()
    handler = type("Handler", (_Handler,), {"model": model})
    with _Server(("127.0.0.1", 0), handler) as server:
        model.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield model
        finally:
            model.let_go.set()
            server.shutdown()
            thread.join()
