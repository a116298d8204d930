"""The built-in demo model: an upstream inside this process that answers with the prompt it was given.

It exists so that a newcomer sees a batch go through with no model server at hand. Its usage counts words; its delay
makes the work visible. It speaks chat completions, plain and streamed.
"""

import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio

from fibatchd import rawjson
from fibatchd.errors import AnswerTimeout
from fibatchd.ids import new_id
from fibatchd.upstream.answer import Answer


class EchoedStream:
    """A streamed answer of the demo model; an `interface.Streamed`."""

    def __init__(self, status: int, content_type: bytes, chunks: list[bytes], delay_s: float) -> None:
        self.status = status
        self.headers = {b"content-type": content_type}
        self._chunks = iter(chunks)
        self._pause_s = delay_s / len(chunks)

    def header(self, name: bytes) -> bytes | None:
        """Return the header `name`, in lower case, or None."""
        return self.headers.get(name)

    def __aiter__(self) -> "EchoedStream":
        return self

    async def __anext__(self) -> bytes:
        await trio.sleep(self._pause_s)
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration

    async def read(self, max_body: int) -> bytes:
        """Return the whole body."""
        return b"".join(self._chunks)


class Echo:
    """Answers as an UpstreamClient for a chat-completions server would."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Iterable[tuple[str, str]] = (),
        timeout: float,
        max_body: int,
        patient: bool = False,
    ) -> Answer:
        """Answer after the delay. AnswerTimeout: the delay is longer than `timeout`."""
        if self._delay_s > timeout:
            await trio.sleep(timeout)
            raise AnswerTimeout(f"no whole answer within {timeout} s")
        await trio.sleep(self._delay_s)
        status, answer = _answer(path, body)
        return Answer(status, {b"content-type": b"application/json"}, json.dumps(answer).encode())

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Iterable[tuple[str, str]] = (),
        timeout: float,
    ) -> AsyncIterator[EchoedStream]:
        """Answer a word at a time, the delay spread over the words."""
        await trio.lowlevel.checkpoint()
        status, answer = _answer(path, body)
        if status != 200:
            yield EchoedStream(status, b"application/json", [json.dumps(answer).encode()], self._delay_s)
            return
        options = rawjson.decode(body).get("stream_options") or {}
        events = [_event(chunk) for chunk in _chunks(answer, bool(options.get("include_usage")))]
        yield EchoedStream(200, b"text/event-stream", [*events, b"data: [DONE]\n\n"], self._delay_s)

    async def aclose(self) -> None:
        """Nothing is open."""
        await trio.lowlevel.checkpoint()


def _answer(path: str, body: bytes) -> tuple[int, dict[str, Any]]:
    if path != "/chat/completions":
        message = f"the echo model serves chat completions only, not {path}"
        return 404, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
    request = rawjson.decode(body)
    prompt = " ".join(text for message in request["messages"] for text in _texts(message.get("content")))
    words = len(prompt.split())
    content = f"You said: {prompt}"
    return 200, {
        "id": new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": words, "completion_tokens": words + 2, "total_tokens": 2 * words + 2},
    }


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or [] if part.get("type") == "text"]


def _chunks(answer: dict[str, Any], include_usage: bool) -> list[dict[str, Any]]:
    common = {key: answer[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    words = answer["choices"][0]["message"]["content"].split(" ")
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word if index == 0 else " " + word} for index, word in enumerate(words)]
    chunks = [common | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append(common | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if include_usage:
        chunks.append(common | {"choices": [], "usage": answer["usage"]})
    return chunks


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
