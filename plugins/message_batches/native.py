"""Messages on a server that speaks them itself: everything goes on as it stands, the model's name aside."""

import msgspec

from fibatchd.plugin_api import BrokenReply, Call, EventSplitter, Options, Reply, Route, StreamEditor, is_null, rawjson

from .answers import NativeUsage, native_usage
from .errors import TYPES, type_of_code
from .streams import error_event
from .versions import FIRST, HEADER

BETA = "anthropic-beta"


def native_call(path: str, body: bytes, route: Route, options: Options) -> Call:
    """Return the client's own bytes with the upstream's name for the model, and the version that they are written in."""
    headers = [(HEADER, options.get("version", FIRST))]
    if beta := options.get("beta"):
        headers.append((BETA, beta))
    return Call(path, rawjson.replace_member(body, "model", msgspec.json.encode(route.upstream.model)), tuple(headers))


def native_reply(body: bytes, route: Route) -> Reply:
    """Return the upstream's own bytes, the model under its public name. Raises BrokenReply."""
    members = rawjson.split_object(body)
    if "content" not in members or "model" not in members:
        raise BrokenReply("the answer is no message")
    usage = native_usage(members.get("usage"))
    renamed = rawjson.replace_member(body, "model", msgspec.json.encode(route.model.id))
    return Reply(renamed, usage.tokens() if usage else None)


class NativeStream(StreamEditor):
    """Edits a stream of the Messages API event by event and passes each on at once."""

    def __init__(self, model: str) -> None:
        self._model = msgspec.json.encode(model)
        self._events = EventSplitter()
        self._counts = NativeUsage()
        self._failed_as: str | None = None
        self._done = False

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that are complete with this chunk. Raises BrokenReply."""
        return b"".join(self._edited(found) for found in self._events.feed(chunk))

    def close(self) -> bytes:
        """Raises BrokenReply for a stream that ended before its `message_stop`."""
        rest = b"".join(self._edited(found) for found in self._events.close())
        if not self._done:
            raise BrokenReply("the stream ended early")
        return rest

    def failed(self, code: str, message: str) -> bytes:
        """Return the error event, of the upstream's own type where it told one."""
        return error_event(self._failed_as or type_of_code(code), message)

    def _edited(self, found: bytes) -> bytes:
        data = self._events.data(found)
        if data is None:
            return found
        if not rawjson.is_object(data):
            raise BrokenReply("an event of the stream is not a JSON object")
        members = rawjson.split_object(data)
        kind = rawjson.decode(members["type"]) if "type" in members else None
        if kind == "message_start":
            return self._started(found, data, members.get("message"))
        if kind == "message_delta":
            self._count(members.get("usage"))
        elif kind == "message_stop":
            self._done = True
        elif kind == "error":
            self._broke(members.get("error"))
        return found

    def _started(self, found: bytes, data: bytes, message: msgspec.Raw | None) -> bytes:
        if message is None or not rawjson.is_object(bytes(message)):
            raise BrokenReply("message_start is without a message")
        members = rawjson.split_object(message)
        self._count(members.get("usage"))
        if is_null(members.get("model")):
            return found
        renamed = rawjson.replace_member(bytes(message), "model", self._model)
        edited = rawjson.replace_member(data, "message", renamed)
        return found.replace(data, edited, 1) if data in found else b"event: message_start\ndata: " + edited + b"\n\n"

    def _count(self, usage: msgspec.Raw | None) -> None:
        if (found := native_usage(usage)) is not None:
            self._counts.update(found)
            self.usage = self._counts.tokens()

    def _broke(self, error: msgspec.Raw | None) -> None:
        """The upstream says itself that it failed. Its words stay here, for they may name what is the operator's."""
        value = rawjson.decode(error) if error is not None else None
        kind = value.get("type") if isinstance(value, dict) else None
        self._failed_as = kind if isinstance(kind, str) and kind in TYPES else None
        raise BrokenReply("the server failed in mid-stream")
