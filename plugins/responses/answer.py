"""A Responses answer and the items in it, as they are made from a chat completion, whole or streamed."""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from fibatchd.plugin_api import BrokenReply, Usage, is_null, new_id, rawjson

from .to_chat import Settings

Item = dict[str, Any]

EMPTY = Raw(b"[]")

_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
_GIVEN_UP = frozenset({"abort", "error"})
"""How vLLM and SGLang end what they do not go on with."""

_UNSAID: Item = {
    "instructions": None, "max_output_tokens": None, "metadata": {}, "parallel_tool_calls": True, "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None}, "safety_identifier": None, "service_tier": None, "temperature": None,
    "text": None, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": None, "user": None,
}  # fmt: skip
"""What the API takes for what a request does not say."""


def incomplete_reason(finish_reason: str | None) -> str | None:
    """Return why an answer is not complete, None where it is. Raises BrokenReply for one that the server gave up."""
    if finish_reason in _GIVEN_UP:
        raise BrokenReply("the server gave the answer up")
    return _REASONS.get(finish_reason or "stop")


def response_object(
    settings: Settings,
    *,
    response_id: str,
    created_at: Any,
    model: str,
    status: str,
    reason: str | None = None,
    error: Item | None = None,
    output: Sequence[Item] = (),
    usage: Usage | None = None,
    service_tier: Any = None,
) -> Item:
    """Return a response. `settings` is what the request said; where it said nothing, what the API takes for that stands."""

    said = _UNSAID | {name: raw for name, raw in settings.items() if not is_null(raw)}
    return said | {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "status": status,
        "background": False,
        "error": error,
        "incomplete_details": {"reason": reason} if reason else None,
        "max_tool_calls": None,
        "model": model,
        "output": output,
        "previous_response_id": None,
        "service_tier": service_tier or said["service_tier"],
        "store": False,
        "text": _text(said["text"]),
        "truncation": "disabled",
        "usage": usage_object(usage),
    }


def usage_object(usage: Usage | None) -> Item | None:
    """Return `usage`, None where the server told none."""
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def text_part(text: Raw, logprobs: Raw = EMPTY) -> Item:
    """Return content that is text. `logprobs` have the same form in chat completions."""
    return {"type": "output_text", "annotations": [], "logprobs": logprobs, "text": text}


def refusal_part(refusal: Raw) -> Item:
    """Return content that is a refusal."""
    return {"type": "refusal", "refusal": refusal}


def message_item(content: Sequence[Item], status: str, item_id: str | None = None) -> Item:
    """Return a message of the assistant."""
    item_id = item_id or new_id("msg_")
    return {"id": item_id, "type": "message", "status": status, "content": content, "role": "assistant"}


def call_item(call_id: Any, name: Any, arguments: Raw, status: str, item_id: str | None = None) -> Item:
    """Return a call of a function."""
    return {
        "id": item_id or new_id("fc_"),
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": call_id,
        "name": name,
    }


def _text(given: Raw | None) -> Any:
    if given is None:
        return {"format": {"type": "text"}}
    if "format" in rawjson.split_object(given):
        return given
    return Raw(rawjson.add_member(bytes(given), "format", b'{"type":"text"}'))
