"""Translates a chat completion into a message."""

from typing import Any

import msgspec

from fibatchd.plugin_api import BrokenReply, Reply, new_id, rawjson, read_usage

from .answers import Choice, decoded, encoded, message_object, stop_of, tool_input, usage_object
from .to_chat import Asked


class Function(msgspec.Struct):
    """A tool call's function; `arguments` is JSON in a string."""

    name: str
    arguments: str = "{}"


class ToolCall(msgspec.Struct):
    """One tool call."""

    function: Function
    id: str | None = None


class ChatMessage(msgspec.Struct):
    """The assistant's message."""

    content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None


class WholeChoice(Choice, kw_only=True):
    """A choice of a chat completion."""

    message: ChatMessage


class Completion(msgspec.Struct):
    """A chat completion, as far as it is carried. Its usage is read by itself, for a bad one must not spoil the answer."""

    choices: list[WholeChoice]


def from_chat(body: bytes, model: str, asked: Asked) -> Reply:
    """Return the message that a chat completion (a JSON object) amounts to. Raises BrokenReply."""
    completion = decoded(body, Completion)
    if not completion.choices:
        raise BrokenReply("the completion has no choice")
    choice = completion.choices[0]
    content = _content(choice.message)
    usage = read_usage(rawjson.split_object(body).get("usage"))
    calls = bool(choice.message.tool_calls)
    reason, sequence = stop_of(choice, asked.stops, tools_called=calls, refused=bool(choice.message.refusal))
    message = message_object(new_id("msg_"), model, content)
    message |= {"stop_reason": reason, "stop_sequence": sequence, "usage": usage_object(usage)}
    return Reply(encoded(message), usage)


def _content(message: ChatMessage) -> list[dict[str, Any]]:
    text = message.content or message.refusal
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    calls = message.tool_calls or []
    return content + [tool_use(call.id, call.function.name, tool_input(call.function.arguments)) for call in calls]


def tool_use(call_id: str | None, name: str, given: Any) -> dict[str, Any]:
    """Return a tool_use block; a call that the server gave no id gets one."""
    return {"type": "tool_use", "id": call_id or new_id("toolu_"), "name": name, "input": given}
