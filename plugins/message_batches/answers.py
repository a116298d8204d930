"""What an answer is in both forms: stop reasons, usage, the message around them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from fibatchd.plugin_api import BrokenReply, InvalidJson, Usage, rawjson

T = TypeVar("T", bound=msgspec.Struct)

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_ABORTED = frozenset({"abort", "error"})  # how vLLM and SGLang end what they gave up


def decoded(text: bytes, kind: type[T]) -> T:
    """Return a JSON text that a server sent as a value of this type. Raises BrokenReply where it is none."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise BrokenReply(str(error)) from None
    except msgspec.DecodeError:
        pass  # not JSON, or JSON with lone surrogates
    try:
        return msgspec.convert(rawjson.decode(text), kind)
    except (msgspec.ValidationError, InvalidJson, UnicodeEncodeError) as error:
        raise BrokenReply(str(error)) from None  # the last: a member's very name is a lone surrogate


def encoded(value: Mapping[str, Any]) -> bytes:
    """Return a value as JSON, a model's lone surrogates as the escapes that they came as."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, default=rawjson.decode).encode()


class Choice(msgspec.Struct):
    """What ends a chat completion, streamed or whole. The two fields behind `finish_reason` are vLLM's and SGLang's: the
    stop sequence that was met, or the number of a token."""

    finish_reason: str | None = None
    stop_reason: str | int | None = None
    matched_stop: str | int | None = None


def stop_of(choice: Choice, stops: Sequence[str], *, tools_called: bool, refused: bool) -> tuple[str, str | None]:
    """Return `stop_reason` and `stop_sequence`. `stops` are the request's own. Raises BrokenReply for an answer that the
    server gave up."""
    reason = choice.finish_reason
    if reason in _ABORTED:
        raise BrokenReply("the server gave the answer up")
    if refused or reason == "content_filter":
        return "refusal", None
    if tools_called and reason != "length":
        return "tool_use", None  # some servers say "stop" where a tool was asked for by name
    for matched in (choice.stop_reason, choice.matched_stop):
        if reason == "stop" and matched in stops:
            return "stop_sequence", str(matched)
    return _STOP_REASONS.get(reason or "stop", "end_turn"), None


def usage_object(usage: Usage | None) -> dict[str, Any]:
    """Return `usage` as the Messages API has it: cached tokens are not part of `input_tokens` there."""
    usage = usage or Usage()
    cached = min(usage.cached_tokens, usage.input_tokens)
    return {
        "input_tokens": usage.input_tokens - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.output_tokens,
    }


def message_object(message_id: str, model: str, content: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a message that has not stopped yet, and has no usage."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
    }


def tool_input(arguments: str) -> msgspec.Raw:
    """Return a tool call's arguments as the JSON object that they must be. Raises BrokenReply."""
    text = arguments.encode("utf-8", "surrogatepass")
    if not rawjson.is_object(text):
        raise BrokenReply("a tool's arguments are not a JSON object")
    return msgspec.Raw(text)


class NativeUsage(msgspec.Struct):
    """`usage` of a message, and of the events of a stream that tell it; counts only grow while it streams."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None

    def update(self, newer: "NativeUsage") -> None:
        """Take over what a later event tells."""
        for name in self.__struct_fields__:
            if (value := getattr(newer, name)) is not None:
                setattr(self, name, value)

    def tokens(self) -> Usage | None:
        """Return it in the core's terms, where cached input is part of all input; None where counts are missing."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        cached = max(0, self.cache_read_input_tokens or 0)
        written = max(0, self.cache_creation_input_tokens or 0)
        return Usage(max(0, self.input_tokens) + cached + written, cached, max(0, self.output_tokens))


_decode_usage = msgspec.json.Decoder(NativeUsage | None).decode


def native_usage(raw: msgspec.Raw | None) -> NativeUsage | None:
    """Return a usage object; None where there is none, or none that can be read."""
    if raw is None:
        return None
    try:
        return _decode_usage(raw)
    except msgspec.DecodeError:
        return None
