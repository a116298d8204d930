"""Translates a Messages body into one of chat completions. What it cannot carry it refuses, by name.

Texts, schemas and numbers go over as slices of the client's own JSON, so that no digit and no escape changes.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from fibatchd.plugin_api import Model, is_string, rawjson

from .fields import REQUIRED, Fields, refuse, strings
from .tools import tool_choice_of, tool_of
from .turns import Turns, text_parts

_NOT_CARRIED = {
    "cache_control": "prompt caching cannot be asked for on this model's route",
    "container": "containers are not available here",
    "context_management": "context management is not available on this model's route",
    "inference_geo": "the place of inference cannot be chosen on this model's route",
    "mcp_servers": "MCP servers are not available here",
    "speed": "the speed cannot be chosen on this model's route",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the answer's translation needs to know of the request: its stop sequences."""

    stops: tuple[str, ...] = ()


def to_chat(body: bytes, model: Model, upstream_model: str, *, stream: bool = False) -> tuple[bytes, Asked]:
    """Return the chat completions body that asks for the same, and what to remember of it. Raises Refused.

    `body` is an object that `checks.body_problem` has passed; `model.capabilities` say what the route carries.
    """
    fields = Fields(body)
    fields.take("model")
    chat: dict[str, Any] = {"model": upstream_model, "messages": _messages(fields, model)}
    chat["max_tokens"] = fields.number("max_tokens", 1, whole=True) or refuse("max_tokens", REQUIRED)
    stops = _stops(fields, model)
    chat["stop"] = list(stops) or None
    chat["temperature"] = fields.number("temperature", 0, 1)
    chat["top_p"] = fields.number("top_p", 0, 1)
    chat["top_k"] = _top_k(fields, model)
    chat |= _tools(fields)
    chat["user"] = _user(fields)
    _settings(fields)
    fields.end()
    if stream:
        chat |= {"stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode({name: value for name, value in chat.items() if value is not None}), Asked(stops)


def _messages(fields: Fields, model: Model) -> list[dict[str, Any]]:
    turns = Turns(images=model.capabilities.images)
    system = fields.take("system")
    if system is not None and (content := _system(system)) is not None:
        turns.messages.append({"role": "system", "content": content})
    for message in Fields.each(fields.need("messages"), "messages"):
        turns.add(message)
    if turns.last_role == "assistant" and not model.capabilities.assistant_prefill:
        refuse(
            "messages", "the last message must be the user's; this model's route does not continue an assistant turn"
        )
    return turns.messages


def _system(raw: Raw) -> Any:
    return raw if is_string(raw) else text_parts(Fields.each(raw, "system"))


def _stops(fields: Fields, model: Model) -> tuple[str, ...]:
    raw = fields.take("stop_sequences")
    if raw is None:
        return ()
    stops = strings(raw, "stop_sequences")
    most = model.capabilities.max_stop_sequences
    if len(stops) > most:
        refuse("stop_sequences", f"this model's route takes at most {most}")
    return tuple(stops)


def _top_k(fields: Fields, model: Model) -> Raw | None:
    if not model.capabilities.top_k:
        fields.forbid("top_k", "this model's route does not take it")
    return fields.number("top_k", 0, whole=True)


def _tools(fields: Fields) -> dict[str, Any]:
    tools = [tool_of(tool) for tool in fields.objects("tools")]
    chat: dict[str, Any] = {"tools": tools} if tools else {}
    if (choice := fields.object("tool_choice")) is not None:
        chat |= tool_choice_of(choice)
    return chat


def _user(fields: Fields) -> Raw | None:
    metadata = fields.object("metadata")
    if metadata is None:
        return None
    user = metadata.string("user_id")
    metadata.end()
    return user


def _settings(fields: Fields) -> None:
    """Take the members whose default changes nothing, and refuse what asks for more."""
    fields.take("stream")  # judged before; whoever calls knows whether to stream
    thinking = fields.object("thinking")
    if thinking is not None:
        if thinking.word("type") != "disabled":
            refuse("thinking", "extended thinking is not available on this model's route")
        thinking.end()
    output = fields.object("output_config")
    if output is not None:
        output.forbid("effort", "the effort cannot be chosen on this model's route")
        output.forbid("format", "structured output is not available on this model's route")
        output.end()
    tier = fields.take("service_tier")
    if tier is not None and rawjson.decode(tier) != "auto":
        refuse("service_tier", "only auto is available on this model's route")
    for name, why in _NOT_CARRIED.items():
        fields.forbid(name, why)
