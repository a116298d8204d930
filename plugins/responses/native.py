"""Responses on an upstream that serves them itself: all passes as it stands, but for the model's name and `store`."""

import msgspec

from fibatchd.plugin_api import (
    BrokenReply,
    Call,
    EventSplitter,
    InvalidJson,
    Reply,
    Route,
    StreamEditor,
    Usage,
    rawjson,
)

_ENDED = frozenset({"response.completed", "response.incomplete"})
_FAILED = frozenset({"response.failed", "error"})


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


_decode_usage = msgspec.json.Decoder(_Usage).decode


def native_call(path: str, body: bytes, route: Route) -> Call:
    """Return what to send: the client's own bytes, with the upstream's name for the model, and `store: false`."""
    sent = rawjson.replace_member(body, "model", msgspec.json.encode(route.upstream.model))
    change = rawjson.replace_member if "store" in rawjson.split_object(body) else rawjson.add_member
    return Call(path, change(sent, "store", b"false"))


def native_reply(body: bytes, route: Route) -> Reply:
    """Return the upstream's own bytes, the model under its public name. Raises BrokenReply."""
    members = rawjson.split_object(body)
    if "output" not in members:
        raise BrokenReply("no output")
    if "model" in members:
        body = rawjson.replace_member(body, "model", msgspec.json.encode(route.model.id))
    return Reply(body, native_usage(members.get("usage")))


def native_usage(raw: msgspec.Raw | None) -> Usage | None:
    """Return the usage of a response, None where it has none, or none that makes sense."""
    if raw is None:
        return None
    try:
        usage = _decode_usage(raw)
    except msgspec.DecodeError:
        return None
    if usage.input_tokens < 0 or usage.output_tokens < 0:
        return None
    cached = (usage.input_tokens_details.cached_tokens if usage.input_tokens_details else 0) or 0
    reasoning = (usage.output_tokens_details.reasoning_tokens if usage.output_tokens_details else 0) or 0
    return Usage(usage.input_tokens, max(0, cached), usage.output_tokens, max(0, reasoning))


class NativeStream(StreamEditor):
    """Passes events on, the model renamed in those that hold the response. An error among them breaks the stream: what the
    upstream says there is not for clients, who are told in our words."""

    def __init__(self, model: str) -> None:
        self._model = msgspec.json.encode(model)
        self._events = EventSplitter()
        self._ended = False
        self._next = 0

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that are complete with this chunk. Raises BrokenReply."""
        return b"".join(self._edited(event) for event in self._events.feed(chunk))

    def close(self) -> bytes:
        """Raises BrokenReply for a stream that ended before the response did."""
        rest = b"".join(self._edited(event) for event in self._events.close())
        if not self._ended:
            raise BrokenReply("the stream ended early")
        return rest

    def failed(self, code: str, message: str) -> bytes:
        """Return the API's error event."""
        error = {"type": "error", "code": code, "message": message, "param": None, "sequence_number": self._next}
        return b"event: error\ndata: " + msgspec.json.encode(error) + b"\n\n"

    def _edited(self, event: bytes) -> bytes:
        data = self._events.data(event)
        if data is None or data.strip() == b"[DONE]":
            return event
        try:
            members = rawjson.split_object(data)
            edited = self._read(rawjson.decode(members["type"]), members, data)
        except (InvalidJson, KeyError):
            raise BrokenReply("an event of the stream is none of the API's") from None
        if data in event:
            return event.replace(data, edited, 1)
        name = self._events.name(event)
        return (b"event: " + name + b"\n" if name else b"") + b"data: " + rawjson.jsonl_line(edited) + b"\n\n"

    def _read(self, kind: object, members: dict[str, msgspec.Raw], data: bytes) -> bytes:
        """Note what an event tells, and return its data with the model renamed. Raises BrokenReply, InvalidJson."""
        if not isinstance(kind, str):
            raise BrokenReply("an event's type is not a string")
        if kind in _FAILED:
            raise BrokenReply("the server reported an error")
        number = rawjson.decode(members.get("sequence_number", b"null"))
        self._next = (number if isinstance(number, int) else self._next) + 1
        if "response" not in members:
            return data
        response = members["response"]
        inner = rawjson.split_object(response)
        if kind in _ENDED:
            self._ended = True
            self.usage = native_usage(inner.get("usage"))
        if "model" not in inner:
            return data
        renamed = rawjson.replace_member(bytes(response), "model", self._model)
        return rawjson.replace_member(data, "response", renamed)
