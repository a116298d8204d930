"""The items of a streamed response while they grow: a message with its parts, and calls of functions.

Each returns the events that tell of its growth: pairs of a type and the members beside `type` and `sequence_number`. Texts
are joined as JSON, without decoding them: two halves of a surrogate pair in two chunks become one character again.
"""

from abc import ABC, abstractmethod
from typing import Any

from msgspec import Raw

from fibatchd.plugin_api import BrokenReply, new_id

from .answer import EMPTY, Item, call_item, message_item, refusal_part, text_part
from .chat_answer import text

Event = tuple[str, dict[str, Any]]

_NO_TEXT = Raw(b'""')


class StreamedItem(ABC):
    """One item of `output`, at position `index`."""

    status = "in_progress"

    def __init__(self, index: int, prefix: str) -> None:
        self.index = index
        self.id = new_id(prefix)

    @abstractmethod
    def shown(self) -> Item:
        """Return the item as far as it has grown."""

    @abstractmethod
    def end(self) -> list[Event]:
        """Tell that the item, whose `status` is set, is whole."""

    def at(self, **more: Any) -> Item:
        """Return an event's members that name the item."""
        return {"item_id": self.id, "output_index": self.index, **more}

    def added(self) -> Event:
        """Tell that the item begins."""
        return "response.output_item.added", {"output_index": self.index, "item": self.shown()}

    def done(self) -> Event:
        """Tell what the item has become."""
        return "response.output_item.done", {"output_index": self.index, "item": self.shown()}


class _Part:
    """Text or refusal: a part of a message."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._pieces: list[bytes] = []
        self._logprobs: list[bytes] = []

    def grow(self, piece: Raw, logprobs: Raw | None) -> None:
        self._pieces.append(_inner(piece))
        if logprobs is not None and (entries := _inner(logprobs).strip()):
            self._logprobs.append(entries)

    @property
    def text(self) -> Raw:
        return Raw(b'"' + b"".join(self._pieces) + b'"')

    @property
    def logprobs(self) -> Raw:
        return Raw(b"[" + b",".join(self._logprobs) + b"]")

    def shown(self) -> Item:
        return text_part(self.text, self.logprobs) if self.kind == "content" else refusal_part(self.text)


class StreamedMessage(StreamedItem):
    """The assistant's message."""

    def __init__(self, index: int) -> None:
        super().__init__(index, "msg_")
        self._parts: list[_Part] = []

    def shown(self) -> Item:
        """Return the message as far as it has grown."""
        return message_item([part.shown() for part in self._parts], self.status, self.id)

    def add(self, kind: str, piece: Raw, logprobs: Raw | None) -> list[Event]:
        """Take a piece of its "content" or of its "refusal", with the log-probabilities of the piece."""
        events = [] if self._parts else [self.added()]
        part = next((part for part in self._parts if part.kind == kind), None)
        if part is None:
            part = _Part(kind)
            self._parts.append(part)
            events.append(("response.content_part.added", self._at(part, part=part.shown())))
        part.grow(piece, logprobs)
        if kind == "content":
            delta = self._at(part, delta=piece, logprobs=EMPTY if logprobs is None else logprobs)
            return [*events, ("response.output_text.delta", delta)]
        return [*events, ("response.refusal.delta", self._at(part, delta=piece))]

    def end(self) -> list[Event]:
        """Tell what its parts and the message have become."""
        events: list[Event] = []
        for part in self._parts:
            if part.kind == "content":
                whole = self._at(part, text=part.text, logprobs=part.logprobs)
                events.append(("response.output_text.done", whole))
            else:
                events.append(("response.refusal.done", self._at(part, refusal=part.text)))
            events.append(("response.content_part.done", self._at(part, part=part.shown())))
        return [*events, self.done()]

    def _at(self, of: _Part, /, **more: Any) -> Item:
        return self.at(content_index=self._parts.index(of), **more)


class StreamedCall(StreamedItem):
    """A call of a function. Its name comes with its first piece."""

    def __init__(self, index: int, call_id: Raw | None) -> None:
        super().__init__(index, "fc_")
        self._call_id: Raw | str = call_id or new_id("call_")
        self._name: Raw | None = None
        self._pieces: list[bytes] = []

    def shown(self) -> Item:
        """Return the call as far as it has grown."""
        return call_item(self._call_id, self._name, self._arguments, self.status, self.id)

    def add(self, function: dict[str, Raw]) -> list[Event]:
        """Take what a chunk tells of the function: its name, a piece of the arguments."""
        events: list[Event] = []
        if self._name is None:
            self._name = text(function.get("name"))
            if self._name is None:
                raise BrokenReply("a tool call without the function's name")
            events.append(self.added())
        piece = text(function.get("arguments"))
        if piece is None or len(piece) == len(_NO_TEXT):
            return events
        self._pieces.append(_inner(piece))
        return [*events, ("response.function_call_arguments.delta", self.at(delta=piece))]

    def end(self) -> list[Event]:
        """Tell what the arguments and the call have become."""
        whole = self.at(arguments=self._arguments, name=self._name)
        return [("response.function_call_arguments.done", whole), self.done()]

    @property
    def _arguments(self) -> Raw:
        return Raw(b'"' + b"".join(self._pieces) + b'"')


def _inner(raw: Raw) -> bytes:
    """Return what stands between a value's quotes or brackets."""
    return bytes(raw)[1:-1]
