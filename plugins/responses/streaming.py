"""Translates a stream of chat completion chunks into the events of a streamed response, while it arrives."""

import time
from typing import Any

import msgspec
from msgspec import Raw

from fibatchd.plugin_api import BrokenReply, EventSplitter, StreamEditor, new_id, rawjson, read_usage

from .answer import Item, incomplete_reason, response_object
from .chat_answer import elements, members, number, text, word
from .streamed_items import Event, StreamedCall, StreamedItem, StreamedMessage
from .to_chat import Settings

LONGEST_ANSWER = 64 * 2**20
"""Bytes of events, at most: as many as a whole answer may have, since the last event repeats what all of them said."""


class ChatToResponses(StreamEditor):
    """Edits one stream. Its items stay open to its end, for a server may send parts of several in turn."""

    def __init__(self, model: str, settings: Settings) -> None:
        self._model = model
        self._settings = settings
        self._events = EventSplitter()
        self._id = new_id("resp_")
        self._created_at: Any = None  # told by the first chunk
        self._tier: Raw | None = None
        self._sent = 0
        self._received = 0
        self._items: list[StreamedItem] = []
        self._message: StreamedMessage | None = None
        self._calls: dict[bytes, StreamedCall] = {}
        self._finish_reason: str | None = None
        self._done = False

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that this chunk leads to. Raises BrokenReply."""
        return b"".join(self._edited(event) for event in self._events.feed(chunk))

    def close(self) -> bytes:
        """Raises BrokenReply for a stream that ended before its `[DONE]`: the answer is not whole."""
        rest = b"".join(self._edited(event) for event in self._events.close())
        if not self._done:
            raise BrokenReply("the stream ended early")
        return rest

    def failed(self, code: str, message: str) -> bytes:
        """Return the event of a response that failed."""
        error = {"code": "server_error", "message": message}
        return self._written([("response.failed", {"response": self._response("failed", error=error)})])

    def _edited(self, event: bytes) -> bytes:
        data = self._events.data(event)
        if data is None:
            return event  # a comment, such as a keep-alive
        if self._done:
            return b""
        if data.strip() == b"[DONE]":
            self._done = True
            return self._written([*self._begun(), *self._ended()])
        self._received += len(data)
        if self._received > LONGEST_ANSWER:
            raise BrokenReply("the answer is longer than any may be")
        chunk = members(data)
        if "error" in chunk:
            raise BrokenReply("the server reported an error")
        return self._written([*self._begun(chunk), *self._read(chunk)])

    def _begun(self, chunk: dict[str, Raw] | None = None) -> list[Event]:
        if self._created_at is not None:
            return []
        self._created_at = number((chunk or {}).get("created"), int(time.time()))
        response = self._response("in_progress")
        return [("response.created", {"response": response}), ("response.in_progress", {"response": response})]

    def _read(self, chunk: dict[str, Raw]) -> list[Event]:
        if (usage := read_usage(chunk.get("usage"))) is not None:
            self.usage = usage
        self._tier = text(chunk.get("service_tier")) or self._tier
        events: list[Event] = []
        for raw in elements(chunk.get("choices"))[:1]:
            choice = members(raw)
            self._finish_reason = word(choice.get("finish_reason")) or self._finish_reason
            logprobs = members(choice.get("logprobs")).get("content")
            elements(logprobs)  # an array, if it is there
            events += self._said(members(choice.get("delta")), logprobs)
        return events

    def _said(self, delta: dict[str, Raw], logprobs: Raw | None) -> list[Event]:
        events: list[Event] = []
        for name in ("content", "refusal"):
            piece = text(delta.get(name))
            if piece is not None and len(piece) > len('""'):
                events += self._opened_message().add(name, piece, logprobs if name == "content" else None)
        for raw in elements(delta.get("tool_calls")):
            call = members(raw)
            events += self._opened_call(call).add(members(call.get("function")))
        return events

    def _opened_message(self) -> StreamedMessage:
        if self._message is None:
            self._message = StreamedMessage(len(self._items))
            self._items.append(self._message)
        return self._message

    def _opened_call(self, call: dict[str, Raw]) -> StreamedCall:
        # A server that gives no index sends each call whole.
        key = bytes(call.get("index") or call.get("id") or b"")
        if key not in self._calls:
            self._calls[key] = StreamedCall(len(self._items), text(call.get("id")))
            self._items.append(self._calls[key])
        return self._calls[key]

    def _ended(self) -> list[Event]:
        reason = incomplete_reason(self._finish_reason)
        status = "incomplete" if reason else "completed"
        events: list[Event] = []
        for item in self._items:
            item.status = status if item is self._items[-1] else "completed"
            events += item.end()
        output = [item.shown() for item in self._items]
        response = self._response(status, reason=reason, output=output, usage=self.usage)
        return [*events, (f"response.{status}", {"response": response})]

    def _response(self, status: str, **more: Any) -> Item:
        return response_object(
            self._settings,
            response_id=self._id,
            created_at=self._created_at or int(time.time()),
            model=self._model,
            status=status,
            service_tier=self._tier,
            **more,
        )

    def _written(self, events: list[Event]) -> bytes:
        out = []
        for kind, members_ in events:
            # What it repeats of a request may hold line breaks, which would end the event's data.
            data = rawjson.jsonl_line(msgspec.json.encode({"type": kind, "sequence_number": self._sent, **members_}))
            out.append(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")
            self._sent += 1
        return b"".join(out)
