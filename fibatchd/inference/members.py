"""Reads a JSON object member by member, each value a slice of the client's own text, and leaves none unread.

Whoever translates an object takes the members that it carries; `end` refuses by name what nobody took. So a parameter that
a translation does not carry cannot get lost, also one that was invented after this program. How the path of a field is
written and a refusal worded is each API's own: a subclass says so.
"""

from typing import ClassVar, NoReturn, Self

from msgspec import Raw

from fibatchd import rawjson
from fibatchd.errors import InvalidJson
from fibatchd.inference.endpoint import Problem, Refused

MOST_ITEMS = 100_000
"""Messages, blocks or tools of one request; what Anthropic's API documents for messages."""


class Members:
    """The members of one object at `path` ("" for the whole body). Those that are null count as absent."""

    MISSING: ClassVar[str] = "missing"
    NOT_TAKEN: ClassVar[str] = "unknown"

    def __init__(self, raw: Raw | bytes, path: str = "") -> None:
        try:
            members = rawjson.split_object(raw)
        except InvalidJson:
            self.refuse(path, "expected an object")
        self.path = path
        self._left = {name: value for name, value in members.items() if not is_null(value)}

    @staticmethod
    def refuse(path: str, why: str) -> NoReturn:
        """Refuse the request because of the field at `path`."""
        raise Refused(Problem(f"{path}: {why}", path))

    @staticmethod
    def shown(name: str) -> str:
        """Return a client's key as a path may hold it: bounded, and text that every database can hold."""
        raise NotImplementedError

    @staticmethod
    def item_path(path: str, index: int) -> str:
        """Return the path of an item of the array at `path`."""
        return f"{path}[{index}]"

    def at(self, name: str) -> str:
        """Return the path of a member."""
        return f"{self.path}.{self.shown(name)}" if self.path else self.shown(name)

    def take(self, name: str) -> Raw | None:
        """Take a member as it is written, None where it is absent."""
        return self._left.pop(name, None)

    def need(self, name: str) -> Raw:
        """Take a member that must be there, as it is written."""
        raw = self.take(name)
        return self.refuse(self.at(name), self.MISSING) if raw is None else raw

    def object(self, name: str) -> Self | None:
        """Take an object, None where it is absent."""
        raw = self.take(name)
        return None if raw is None else type(self)(raw, self.at(name))

    def objects(self, name: str) -> list[Self]:
        """Take an array of objects, empty where it is absent."""
        raw = self.take(name)
        return [] if raw is None else self.each(raw, self.at(name))

    def end(self) -> None:
        """Refuse what is left."""
        for name in self._left:
            self.refuse(self.at(name), self.NOT_TAKEN)

    @classmethod
    def array(cls, raw: Raw, path: str) -> list[Raw]:
        """Return the items of an array at `path`."""
        try:
            items = rawjson.split_array(raw, MOST_ITEMS)
        except InvalidJson:
            cls.refuse(path, "expected an array")
        if len(items) > MOST_ITEMS:
            cls.refuse(path, f"has more than {MOST_ITEMS} items")
        return items

    @classmethod
    def each(cls, raw: Raw, path: str) -> list[Self]:
        """Return the items of an array of objects at `path`."""
        return [cls(item, cls.item_path(path, index)) for index, item in enumerate(cls.array(raw, path))]


def is_null(raw: Raw | bytes | None) -> bool:
    """Whether a member is not there, or null, which counts the same."""
    return raw is None or (len(raw) == len(b"null") and bytes(raw) == b"null")


def is_string(raw: Raw) -> bool:
    """Whether a value is a string."""
    return memoryview(raw)[0] == ord('"')  # not bytes(raw), which copies an image
