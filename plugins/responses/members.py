"""Reads the objects of a request member by member, and leaves none unread.

Whoever translates an object takes the members that it carries, each a slice of the client's own text; `end` refuses by name
what nobody took. So no parameter is dropped without a word, also none that was invented after this program.
"""

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from msgspec import Raw

from fibatchd.plugin_api import InvalidJson, Problem, Refused, rawjson

NOT_CARRIED = "cannot be carried over to this model's server"

_LONGEST_NAME = 64  # characters of a client's key that a message repeats


def refuse(path: str, why: str = NOT_CARRIED) -> NoReturn:
    """Refuse the request because of the field at `path`, such as `input[0].content`."""
    raise Refused(Problem(f"{path}: {why}", path))


class Members:
    """The members of one object at `path` ("" for the whole body). Those that are null count as absent."""

    def __init__(self, raw: Raw | bytes, path: str = "") -> None:
        try:
            members = rawjson.split_object(raw)
        except InvalidJson:
            refuse(path, "expected an object")
        self.path = path
        self._left = {name: value for name, value in members.items() if len(value) != 4 or bytes(value) != b"null"}

    def at(self, name: str) -> str:
        """Return the path of a member."""
        shown = name if name.isidentifier() and len(name) <= _LONGEST_NAME else json.dumps(name[:_LONGEST_NAME])
        return f"{self.path}.{shown}" if self.path else shown

    def take(self, name: str) -> Raw | None:
        """Take a member as it is written, None where it is absent."""
        return self._left.pop(name, None)

    def need(self, name: str) -> Raw:
        """Take a member that must be there, as it is written."""
        raw = self.take(name)
        return refuse(self.at(name), "missing") if raw is None else raw

    def value(self, name: str) -> Any:
        """Take a member and decode it, to look at; None where it is absent."""
        raw = self.take(name)
        return None if raw is None else rawjson.decode(raw)

    def carried(self, *names: str) -> dict[str, Raw]:
        """Take members that go over under their own names."""
        return {name: raw for name in names if (raw := self.take(name)) is not None}

    def without_effect(self, *names: str) -> None:
        """Take members that change nothing, whatever they say."""
        for name in names:
            self.take(name)

    def only(self, name: str, *same_as_absent: Any) -> None:
        """Take a member that has no counterpart; refuse a value that would have an effect."""
        value = self.value(name)
        if value is not None and value not in same_as_absent:
            refuse(self.at(name))

    def object(self, name: str) -> "Members | None":
        """Take an object, None where it is absent."""
        raw = self.take(name)
        return None if raw is None else Members(raw, self.at(name))

    def objects(self, name: str) -> "list[Members]":
        """Take an array of objects; none where it is absent."""
        raw = self.take(name)
        return [] if raw is None else list(objects(raw, self.at(name)))

    def end(self) -> None:
        """Refuse what is left."""
        for name in self._left:
            refuse(self.at(name))


def objects(raw: Raw, path: str) -> Iterator[Members]:
    """Give the elements of an array of objects at `path`."""
    try:
        items = rawjson.split_array(raw, len(raw))
    except InvalidJson:
        refuse(path, "expected an array")
    for index, item in enumerate(items):
        yield Members(item, f"{path}[{index}]")


def is_string(raw: Raw) -> bool:
    """Whether a value is a string."""
    return memoryview(raw)[0] == ord('"')
