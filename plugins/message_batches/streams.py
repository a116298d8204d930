"""Translates a streamed chat completion into a stream of the Messages API, event by event.

message_start, ping, then for each block content_block_start, content_block_delta …, content_block_stop, at the end
message_delta with the stop reason and the usage, and message_stop.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from fibatchd.plugin_api import BrokenReply, EventSplitter, StreamEditor, new_id, rawjson, read_usage

from .answers import Choice, decoded, encoded, message_object, stop_of, tool_input, usage_object
from .errors import type_of_code
from .from_chat import tool_use
from .to_chat import Asked


class FunctionDelta(msgspec.Struct):
    """What a chunk adds to a tool call's function."""

    name: str | None = None
    arguments: str | None = None


class ToolDelta(msgspec.Struct):
    """What a chunk adds to a tool call."""

    index: int = 0
    id: str | None = None
    function: FunctionDelta | None = None


class Delta(msgspec.Struct):
    """What a chunk adds to the message."""

    content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolDelta] | None = None


class StreamedChoice(Choice, kw_only=True):
    """A choice of a chunk."""

    delta: Delta | None = None


class Chunk(msgspec.Struct):
    """A chunk. `error` is how servers tell of a failure in mid-stream."""

    choices: list[StreamedChoice] = []
    error: Any = None


def event(name: str, **members: Any) -> bytes:
    """Return one event of the Messages API."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encoded({"type": name} | members))


def error_event(kind: str, message: str) -> bytes:
    """Return the event that tells of a failure in mid-stream."""
    return event("error", error={"type": kind, "message": message})


class ChatToMessages(StreamEditor):
    """The translation of one stream."""

    def __init__(self, model: str, asked: Asked) -> None:
        self._model = model
        self._asked = asked
        self._events = EventSplitter()
        self._started = False
        self._blocks = 0
        self._open: str | None = None  # the type of the block that is open, the last one
        self._call: ToolDelta | None = None  # what began the tool call that is open
        self._calls: set[str | int] = set()  # ids of all tool calls, the server's numbers where it gave none
        self._arguments = ""
        self._refused = False
        self._end: Choice | None = None
        self._done = False

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that what has come amounts to. Raises BrokenReply."""
        return b"".join(part for found in self._events.feed(chunk) for part in self._translated(found))

    def close(self) -> bytes:
        """Return what ends the message. Raises BrokenReply where the answer is not whole."""
        rest = [part for found in self._events.close() for part in self._translated(found)]
        if not self._done:
            rest += self._finish()
        return b"".join(rest)

    def failed(self, code: str, message: str) -> bytes:
        """Return the error event."""
        return error_event(type_of_code(code), message)

    def _translated(self, found: bytes) -> Iterator[bytes]:
        data = self._events.data(found)
        if self._done:
            return
        if data is None:
            if self._started and found.strip(b"\r\n"):  # blank lines come in pieces that are cut anywhere, and are many
                yield event("ping")  # what a comment is there: a sign of life
            return
        if data.strip() == b"[DONE]":
            yield from self._finish()
            return
        if not rawjson.is_object(data):
            raise BrokenReply("an event of the stream is not a JSON object")
        chunk = decoded(data, Chunk)
        if chunk.error is not None:
            raise BrokenReply("the server failed in mid-stream")
        self.usage = read_usage(rawjson.split_object(data).get("usage")) or self.usage
        yield from self._start()
        for choice in chunk.choices[:1]:
            yield from self._added(choice.delta or Delta())
            if choice.finish_reason is not None:
                self._end = choice

    def _start(self) -> Iterator[bytes]:
        if not self._started:
            self._started = True
            # The tokens are not known yet; message_delta, whose counts are totals, tells them.
            yield event(
                "message_start", message=message_object(new_id("msg_"), self._model, []) | {"usage": usage_object(None)}
            )
            yield event("ping")

    def _added(self, delta: Delta) -> Iterator[bytes]:
        self._refused = self._refused or bool(delta.refusal)
        if text := delta.content or delta.refusal:
            if self._open != "text":
                yield from self._begin({"type": "text", "text": ""})
            yield self._delta({"type": "text_delta", "text": text})
        for call in delta.tool_calls or []:
            yield from self._called(call)

    def _called(self, call: ToolDelta) -> Iterator[bytes]:
        function = call.function or FunctionDelta()
        if self._begins(call):
            known_as = call.id or call.index
            if known_as in self._calls or not function.name:
                raise BrokenReply("a tool call goes on after another has begun")
            yield from self._begin(tool_use(call.id, function.name, {}))
            self._calls.add(known_as)
            self._call = call
        if function.arguments:
            self._arguments += function.arguments
            yield self._delta({"type": "input_json_delta", "partial_json": function.arguments})

    def _begins(self, call: ToolDelta) -> bool:
        """Whether this is another call than the open one. Some servers number all of them 0, some repeat the id."""
        current = self._call
        return current is None or call.index != current.index or (call.id or current.id) != current.id

    def _begin(self, block: dict[str, Any]) -> Iterator[bytes]:
        yield from self._stop()
        self._open = block["type"]
        self._blocks += 1
        yield event("content_block_start", index=self._blocks - 1, content_block=block)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return event("content_block_delta", index=self._blocks - 1, delta=delta)

    def _stop(self) -> Iterator[bytes]:
        """End the block that is open, if one is."""
        if self._open == "tool_use":
            tool_input(self._arguments)  # now that it is whole: is it an object?
        if self._open is not None:
            yield event("content_block_stop", index=self._blocks - 1)
        self._open = self._call = None
        self._arguments = ""

    def _finish(self) -> Iterator[bytes]:
        if self._end is None:
            raise BrokenReply("the stream ended early")
        yield from self._stop()
        called = bool(self._calls)
        reason, sequence = stop_of(self._end, self._asked.stops, tools_called=called, refused=self._refused)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        yield event("message_delta", delta=delta, usage=usage_object(self.usage))
        yield event("message_stop")
        self._done = True
