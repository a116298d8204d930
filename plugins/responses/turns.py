"""The items of `input` as chat messages.

A turn of the assistant is one chat message, while a response has items for its text and for each of its calls: what
follows one another is put together again.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from fibatchd.plugin_api import is_string

from .members import Members, refuse

Part = dict[str, Any]


class Turns:
    """Collects chat `messages` from items in their order. All methods raise Refused."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def say(self, role: str, text: Raw) -> None:
        """Add a message that is one text."""
        self.messages.append({"role": role, "content": text})

    def add_all(self, items: Raw) -> None:
        """Add all items of an array."""
        for item in Members.each(items, "input"):
            kind = item.value("type")
            if kind in (None, "message"):
                self._message(item)
            elif kind == "function_call":
                self._call(item)
            elif kind == "function_call_output":
                self._output(item)
            else:
                refuse(item.at("type"), "items of this type cannot be carried over to this model's server")
            item.without_effect("id", "status")  # they tell how the item came to be
            item.end()

    def _message(self, item: Members) -> None:
        role = item.value("role")
        if role == "assistant" and self._calls() is not None:
            refuse(item.path, "a text that follows a function call in one turn cannot be carried over")
        content = item.need("content")
        if is_string(content):
            self.say(role, content)
        else:
            self.messages.append({"role": role, "content": _content(content, item.at("content"), _PARTS[role])})

    def _call(self, item: Members) -> None:
        item.only("async", False)
        item.only("caller", {"type": "direct"})
        call = {"id": item.need("call_id"), "type": "function", "function": item.carried("name", "arguments")}
        calls = self._calls()
        if calls is not None:
            calls.append(call)
        elif self.messages and self.messages[-1]["role"] == "assistant":
            self.messages[-1]["tool_calls"] = [call]
        else:
            self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})

    def _output(self, item: Members) -> None:
        item.only("caller", {"type": "direct"})
        output = item.need("output")
        content = output if is_string(output) else _content(output, item.at("output"), {"input_text": _text})
        self.messages.append({"role": "tool", "tool_call_id": item.need("call_id"), "content": content})

    def _calls(self) -> list[Part] | None:
        """Return the calls of the turn that the last item belongs to, None where it has none."""
        calls: list[Part] | None = self.messages[-1].get("tool_calls") if self.messages else None
        return calls


def _content(parts: Raw, path: str, known: dict[str, Callable[[Members], Part]]) -> Raw | list[Part]:
    """Return a message's content; one text alone as a string, for not every server takes lists everywhere."""
    found = []
    for part in Members.each(parts, path):
        kind = part.value("type")
        if kind not in known:
            refuse(part.at("type"), "content of this type cannot be carried over to this model's server")
        found.append(known[kind](part))
        part.end()
    if len(found) == 1 and found[0]["type"] == "text":
        text: Raw = found[0]["text"]
        return text
    return found


def _text(part: Members) -> Part:
    return {"type": "text", "text": part.need("text")}


def _image(part: Members) -> Part:
    return {"type": "image_url", "image_url": {"url": part.need("image_url"), **part.carried("detail")}}


def _said(part: Members) -> Part:
    part.only("annotations", [])
    part.without_effect("logprobs")
    return _text(part)


def _refusal(part: Members) -> Part:
    return {"type": "refusal", "refusal": part.need("refusal")}


_PARTS: dict[str, dict[str, Callable[[Members], Part]]] = {
    "user": {"input_text": _text, "input_image": _image},
    "system": {"input_text": _text},
    "developer": {"input_text": _text},
    "assistant": {"output_text": _said, "refusal": _refusal},
}
