"""Translates the turns of a conversation: Anthropic's messages of content blocks into chat messages.

A user turn with tool results becomes one `tool` message for each of them, and then a user message; an assistant turn with
tool uses becomes one message with `tool_calls`.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from fibatchd.plugin_api import is_string

from .fields import Fields, refuse

NO_CACHE = "prompt caching cannot be asked for on this model's route"
NO_BLOCK = "blocks of this type are not available on this model's route"
NO_CITATIONS = "citations are not available on this model's route"
MEDIA_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


class Turns:
    """Collects chat messages, turn by turn. `images`: whether the model takes any."""

    def __init__(self, *, images: bool) -> None:
        self.messages: list[dict[str, Any]] = []
        self.last_role: str | None = None
        self._images = images

    def add(self, message: Fields) -> None:
        """Translate one turn. Raises Refused."""
        role = message.word("role")
        if role not in ("user", "assistant"):
            refuse(message.at("role"), "expected user or assistant")
        self.last_role = role
        content = message.need("content")
        message.end()
        if is_string(content):
            self.messages.append({"role": role, "content": content})
            return
        blocks = Fields.each(content, message.at("content"))
        if not blocks:
            refuse(message.at("content"), "must not be empty")
        if role == "user":
            self._user(blocks)
        else:
            self._assistant(blocks)

    def _user(self, blocks: Sequence[Fields]) -> None:
        parts: list[dict[str, Any]] = []
        for block in blocks:
            kind = _begun(block)
            if kind == "tool_result":
                if parts:
                    refuse(block.path, "a tool_result must come before the other content of its turn")
                self.messages.append(_tool_result(block))
            elif kind == "text":
                parts.append({"type": "text", "text": _text(block)})
            elif kind == "image":
                parts.append(self._image(block))
            else:
                refuse(block.at("type"), NO_BLOCK)
        if parts:
            self.messages.append({"role": "user", "content": _plain(parts)})

    def _assistant(self, blocks: Sequence[Fields]) -> None:
        parts: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] = []
        for block in blocks:
            kind = _begun(block)
            if kind == "tool_use":
                calls.append(_tool_call(block))
            elif kind == "text":
                if calls:
                    refuse(block.path, "text after a tool_use in the same turn cannot be carried on this model's route")
                parts.append({"type": "text", "text": _text(block)})
            else:
                refuse(block.at("type"), NO_BLOCK)
        message: dict[str, Any] = {"role": "assistant", "content": _plain(parts)}
        if calls:
            message["tool_calls"] = calls
        self.messages.append(message)

    def _image(self, block: Fields) -> dict[str, Any]:
        if not self._images:
            refuse(block.path, "this model does not take images")
        block.forbid("transformations", "transformations of images are not available on this model's route")
        source = Fields(block.need("source"), block.at("source"))
        kind = source.word("type")
        if kind == "base64":
            media_type = source.word("media_type")
            if media_type not in MEDIA_TYPES:
                refuse(source.at("media_type"), f"expected one of {', '.join(sorted(MEDIA_TYPES))}")
            data = bytes(source.need_string("data"))[1:-1]
            url = Raw(b'"data:%b;base64,%b"' % (media_type.encode(), data))
        elif kind == "url":
            url = source.need_string("url")
        else:
            refuse(source.at("type"), "only base64 and url sources are available on this model's route")
        source.end()
        block.end()
        return {"type": "image_url", "image_url": {"url": url}}


def text_parts(blocks: Sequence[Fields]) -> Any:
    """Return blocks that may only be text as a chat message's content; None where there is no block."""
    parts = []
    for block in blocks:
        if _begun(block) != "text":
            refuse(block.at("type"), "only text can be carried here on this model's route")
        parts.append({"type": "text", "text": _text(block)})
    return _plain(parts)


def _plain(parts: list[dict[str, Any]]) -> Any:
    """Return content parts; a single text as the plain string that every server takes, None where there is nothing."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts or None


def _begun(block: Fields) -> str | None:
    """Return a block's type, what any block may have and no route here carries being refused."""
    kind = block.word("type")
    block.forbid("cache_control", NO_CACHE)
    return kind


def _text(block: Fields) -> Raw:
    text = block.need_string("text")
    citations = block.take("citations")
    if citations is not None and Fields.array(citations, block.at("citations")):
        refuse(block.at("citations"), NO_CITATIONS)
    block.end()
    return text


def _tool_call(block: Fields) -> dict[str, Any]:
    call_id, name, given = block.need_string("id"), block.need_string("name"), block.need("input")
    Fields(given, block.at("input"))  # an object, whatever is in it
    caller = block.object("caller")
    if caller is not None:
        if caller.word("type") != "direct":
            refuse(block.at("caller"), "only direct calls can be carried on this model's route")
        caller.end()
    block.end()
    # The text of the arguments is the client's own; JSON in a string is how chat completions carry them.
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": bytes(given).decode()}}


def _tool_result(block: Fields) -> dict[str, Any]:
    call_id, raw = block.need_string("tool_use_id"), block.take("content")
    if block.flag("is_error"):
        refuse(block.at("is_error"), "a tool's failure cannot be marked on this model's route")
    content: Any = ""
    if raw is not None:
        content = raw if is_string(raw) else text_parts(Fields.each(raw, block.at("content")))
    block.end()
    return {"role": "tool", "tool_call_id": call_id, "content": "" if content is None else content}
