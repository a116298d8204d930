"""Translates a chat completion into a response; its texts go over as slices of the server's own JSON."""

import time

import msgspec
from msgspec import Raw

from fibatchd.plugin_api import BrokenReply, Reply, new_id, read_usage

from .answer import EMPTY, Item, call_item, incomplete_reason, message_item, refusal_part, response_object, text_part
from .chat_answer import elements, members, number, text, word
from .to_chat import Settings


def from_chat(body: bytes, model: str, settings: Settings) -> Reply:
    """Return the response that a chat completion amounts to. Raises BrokenReply."""
    answer = members(body)
    choices = elements(answer.get("choices"))
    if not choices:
        raise BrokenReply("no choices")
    choice = members(choices[0])
    reason = incomplete_reason(word(choice.get("finish_reason")))
    status = "incomplete" if reason else "completed"
    output = _output(members(choice.get("message")), _logprobs(choice.get("logprobs")))
    if output:
        output[-1]["status"] = status
    usage = read_usage(answer.get("usage"))
    response = response_object(
        settings,
        response_id=new_id("resp_"),
        created_at=number(answer.get("created"), int(time.time())),
        model=model,
        status=status,
        reason=reason,
        output=output,
        usage=usage,
        service_tier=text(answer.get("service_tier")),
    )
    return Reply(msgspec.json.encode(response), usage)


def _output(message: dict[str, Raw], logprobs: Raw) -> list[Item]:
    content = []
    if (said := text(message.get("content"))) is not None and len(said) > len('""'):
        content.append(text_part(said, logprobs))
    if (refusal := text(message.get("refusal"))) is not None and len(refusal) > len('""'):
        content.append(refusal_part(refusal))
    output = [message_item(content, "completed")] if content else []
    return output + [_call(members(call)) for call in elements(message.get("tool_calls"))]


def _call(call: dict[str, Raw]) -> Item:
    function = members(call.get("function"))
    name, arguments = text(function.get("name")), text(function.get("arguments"))
    if name is None or arguments is None:
        raise BrokenReply("a tool call without the function's name or arguments")
    return call_item(text(call.get("id")) or new_id("call_"), name, arguments, "completed")


def _logprobs(raw: Raw | None) -> Raw:
    content = members(raw).get("content")
    elements(content)
    return EMPTY if content is None else content
