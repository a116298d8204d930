"""Translates a Responses body into one of chat completions. What it cannot carry it refuses, by name.

Texts, schemas and numbers go over as slices of the client's own JSON, so that no digit and no escape changes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from fibatchd.plugin_api import is_string, rawjson

from .members import Members, refuse
from .turns import Turns

Settings = Mapping[str, Raw]
"""The members of a request that its answer repeats, as they were written."""

REPEATED = frozenset(
    {
        "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "prompt_cache_key", "reasoning",
        "safety_identifier", "service_tier", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "user",
    }
)  # fmt: skip

_SAME_NAME = ("parallel_tool_calls", "prompt_cache_key", "safety_identifier", "temperature", "top_p", "user")


def to_chat(body: bytes, upstream_model: str, *, stream: bool = False) -> tuple[bytes, Settings]:
    """Return the chat completions body that asks for the same, and what its answer repeats.

    `body` has passed the endpoint's checks. Raises Refused.
    """
    request = Members(body)
    settings = {name: Raw(bytes(raw)) for name, raw in rawjson.split_object(body).items() if name in REPEATED}
    request.take("model")
    chat: dict[str, Any] = {"model": upstream_model, "messages": _messages(request)}
    chat |= request.carried(*_SAME_NAME)
    chat |= _settings(request) | _text(request) | _tools(request)
    if stream:
        chat |= {"stream": True, "stream_options": {"include_usage": True}}
    request.without_effect("metadata", "stream")
    _no_counterparts(request)
    request.end()
    return msgspec.json.encode(chat), settings


def _messages(request: Members) -> list[dict[str, Any]]:
    turns = Turns()
    instructions = request.take("instructions")
    if instructions is not None:
        turns.say("system", instructions)
    given = request.need("input")
    if is_string(given):
        turns.say("user", given)
    else:
        turns.add_all(given)
    return turns.messages


def _settings(request: Members) -> dict[str, Any]:
    chat: dict[str, Any] = {}
    if (limit := request.take("max_output_tokens")) is not None:
        # Not max_completion_tokens, which some open servers do not know, and then answer without a limit.
        chat["max_tokens"] = limit
    if (reasoning := request.object("reasoning")) is not None:
        if (effort := reasoning.take("effort")) is not None:
            chat["reasoning_effort"] = effort
        reasoning.end()
    if (likely := request.take("top_logprobs")) is not None and rawjson.decode(likely) > 0:
        chat |= {"logprobs": True, "top_logprobs": likely}
    if (tier := request.take("service_tier")) is not None:
        if rawjson.decode(tier) not in ("auto", "default"):
            refuse("service_tier")
        chat["service_tier"] = tier
    return chat


def _text(request: Members) -> dict[str, Any]:
    text = request.object("text")
    if text is None:
        return {}
    chat: dict[str, Any] = text.carried("verbosity")
    wanted = text.object("format")
    if wanted is not None:
        kind = wanted.value("type")
        chat["response_format"] = {"type": kind}
        if kind == "json_schema":
            chat["response_format"][kind] = wanted.carried("name", "description", "schema", "strict")
        wanted.end()
    text.end()
    return chat


def _tools(request: Members) -> dict[str, Any]:
    tools = [_tool(tool) for tool in request.objects("tools")]
    choice = _tool_choice(request)
    if not tools:
        # Chat servers refuse both an empty list and a choice without tools, which here say nothing.
        return {} if choice in (None, "auto", "none") else {"tool_choice": choice}
    return {"tools": tools} | ({} if choice is None else {"tool_choice": choice})


def _tool(tool: Members) -> dict[str, Any]:
    if tool.value("type") != "function":
        refuse(tool.at("type"), "only functions can be carried over to this model's server")
    tool.only("async", False)
    tool.only("defer_loading", False)
    tool.only("allowed_callers", ["direct"])
    function = tool.carried("name", "description", "parameters", "strict")
    tool.end()
    return {"type": "function", "function": function}


def _tool_choice(request: Members) -> Any:
    raw = request.take("tool_choice")
    if raw is None or is_string(raw):
        return None if raw is None else rawjson.decode(raw)
    choice = Members(raw, "tool_choice")
    if choice.value("type") != "function":
        refuse("tool_choice.type", "only functions can be carried over to this model's server")
    named = {"type": "function", "function": {"name": choice.need("name")}}
    choice.end()
    return named


def _no_counterparts(request: Members) -> None:
    """Take what chat completions have not, where it says no more than its absence does."""
    request.only("background", False)
    request.only("include", [])
    request.only("store", False)
    request.only("truncation", "disabled")
    if (options := request.object("stream_options")) is not None:
        options.only("include_obfuscation", False)
        options.end()
