"""`/v1/chat/completions`: the endpoint that the core brings, passed on as it is written."""

from collections.abc import Collection, Mapping

import msgspec

from fibatchd import rawjson
from fibatchd.config import CHAT_COMPLETIONS
from fibatchd.domain.requests import Usage
from fibatchd.errors import InvalidJson
from fibatchd.inference import usual_chat
from fibatchd.inference.endpoint import BrokenReply, Call, Endpoint, Options, Problem, Reply, Route, StreamEditor
from fibatchd.inference.members import is_null
from fibatchd.inference.schema import load_schema
from fibatchd.inference.sse import EventSplitter


class PromptDetails(msgspec.Struct):
    """`usage.prompt_tokens_details`."""

    cached_tokens: int | None = None


class CompletionDetails(msgspec.Struct):
    """`usage.completion_tokens_details`."""

    reasoning_tokens: int | None = None


class ChatUsage(msgspec.Struct):
    """`usage` of a chat completion, and of its last streamed chunk."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None

    def tokens(self) -> Usage | None:
        """Return it in our terms; None where the counts are missing or make no sense."""
        if self.prompt_tokens is None or self.prompt_tokens < 0 or (self.completion_tokens or 0) < 0:
            return None
        cached = (self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else 0) or 0
        reasoning = (self.completion_tokens_details.reasoning_tokens if self.completion_tokens_details else 0) or 0
        return Usage(self.prompt_tokens, max(0, cached), self.completion_tokens or 0, max(0, reasoning))


_decode_usage = msgspec.json.Decoder(ChatUsage | None).decode


def read_usage(raw: msgspec.Raw | bytes | None) -> Usage | None:
    """Return the usage object of a chat completion; None where there is none, or none that can be read."""
    if raw is None:
        return None
    try:
        usage = _decode_usage(raw)
    except msgspec.DecodeError:
        return None
    return usage.tokens() if usage else None


class ChatCompletions(Endpoint):
    """OpenAI's chat completions; body, answer and stream pass through byte for byte, the model's name aside."""

    path = CHAT_COMPLETIONS

    def check(self, body: bytes, *, batch: bool, options: Options) -> Problem | None:
        """Judge by `schemas/chat_completions.schema.json`; in a batch, also that the answer is not to be streamed."""
        value = rawjson.decode(body)
        problem = load_schema("chat_completions").problem(value)
        if problem is not None:
            return Problem(problem.message, problem.param)
        if batch and value.get("stream"):
            return Problem("stream: a batched request cannot be streamed", "stream", "streaming_unsupported")
        return None

    def passes_at_sight(self, members: Mapping[str, msgspec.Raw]) -> bool:
        """Know the form that most bodies have: see `usual_chat`."""
        return usual_chat.is_usual(members)

    def call(self, body: bytes, route: Route, options: Options, *, stream: bool = False) -> Call:
        """Send the client's own bytes, with the upstream's name for the model; a stream's usage is asked for."""
        members = rawjson.split_object(body)
        sent = _for_model(body, members, route.upstream.model)
        if not stream:
            return Call(self.path, sent)
        given = members.get("stream_options")
        options_sent = b"{}" if given is None or is_null(given) else bytes(given)
        stated = rawjson.split_object(options_sent)
        wanted = stated.get("include_usage")
        asked = wanted is not None and rawjson.decode(wanted) is True
        if not asked:
            with_usage = _with_member(options_sent, stated, "include_usage", b"true")
            sent = _with_member(sent, members, "stream_options", with_usage)
        return Call(self.path, sent, memo=asked)

    def reply(self, body: bytes, call: Call, route: Route) -> Reply:
        """Return the upstream's own bytes, the model under its public name."""
        members = rawjson.split_object(body)
        choices = members.get("choices")
        if choices is None or memoryview(choices)[0] != ord("["):
            raise BrokenReply("no choices")
        if "model" in members:
            body = _for_model(body, members, route.model.id)
        return Reply(body, read_usage(members.get("usage")))

    def usage_of(self, answer: bytes) -> Usage | None:
        """Return the usage of a completion."""
        return read_usage(rawjson.split_object(answer).get("usage"))

    def editor(self, call: Call, route: Route) -> StreamEditor:
        """Return an editor that renames the model and keeps back the usage chunk nobody asked for."""
        return ChatStream(route.model.id, usage_asked=bool(call.memo))


class ChatStream(StreamEditor):
    """Edits a chat stream event by event and passes each on at once."""

    def __init__(self, model: str, *, usage_asked: bool) -> None:
        self._model = msgspec.json.encode(model)
        self._usage_asked = usage_asked
        self._events = EventSplitter()
        self._done = False

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that are complete with this chunk."""
        return b"".join(self._edited(event) for event in self._events.feed(chunk))

    def close(self) -> bytes:
        """Raises BrokenReply for a stream that ended before its `[DONE]`: the answer is not whole."""
        rest = b"".join(self._edited(event) for event in self._events.close())
        if not self._done:
            raise BrokenReply("the stream ended early")
        return rest

    def failed(self, code: str, message: str) -> bytes:
        """Return an error chunk, as chat completion servers send it."""
        error = {"error": {"message": message, "type": "server_error", "param": None, "code": code}}
        return b"data: " + msgspec.json.encode(error) + b"\n\n"

    def _edited(self, event: bytes) -> bytes:
        if self._done:
            return b""  # what a server says after its last word is for nobody
        data = self._events.data(event)
        if data is None:
            return event  # a comment, such as a keep-alive
        if data.strip() == b"[DONE]":
            self._done = True
            return event
        try:
            chunk = rawjson.read_object(data)
        except InvalidJson:
            raise BrokenReply("an event of the stream is not a JSON object") from None
        if not is_null(chunk.get("error")):
            # What it says may name what is the operator's: the client is told in our words.
            raise BrokenReply("the server failed in mid-stream")
        if not is_null(chunk.get("usage")):
            self.usage = read_usage(chunk["usage"]) or self.usage
            if not self._usage_asked and _is_empty(chunk.get("choices")):
                return b""
        if "model" not in chunk:
            return event
        renamed = rawjson.replace_member(data, "model", self._model)
        return event.replace(data, renamed, 1) if data in event else b"data: " + rawjson.jsonl_line(renamed) + b"\n\n"


def _for_model(text: bytes, members: dict[str, msgspec.Raw], model: str) -> bytes:
    """Return a text with another name for the model, often the one that it has."""
    name = msgspec.json.encode(model)
    return text if bytes(members["model"]) == name else rawjson.replace_member(text, "model", name, members)


def _with_member(text: bytes, members: Collection[str], name: str, value: bytes) -> bytes:
    """Return a text that has members of these names with another value for one of them, or with that one more."""
    change = rawjson.replace_member if name in members else rawjson.add_member
    return change(text, name, value)


def _is_empty(choices: msgspec.Raw | None) -> bool:
    return choices is None or rawjson.decode(choices) in ([], None)
