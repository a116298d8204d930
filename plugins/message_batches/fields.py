"""Reads JSON objects member by member, each value a slice of the client's own text, and leaves none unread.

Whoever reads an object takes the members it knows; `end` then refuses by name what nobody took. So a parameter that a
translation does not carry cannot get lost, also one that was invented after this program.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import Raw

from fibatchd.plugin_api import InvalidJson, Problem, Refused, rawjson

EXTRA = "Extra inputs are not permitted"
REQUIRED = "Field required"

_LONGEST_NAME = 64  # characters of a client's key that a message repeats
_MOST_ITEMS = 100_000  # messages, blocks or tools of one request, as the API documents it for messages


def refuse(path: str, why: str) -> NoReturn:
    """Refuse the request; `path` names the field at fault, as `messages.0.content`."""
    raise Refused(Problem(f"{path}: {why}"))


def shown(name: str) -> str:
    """Return a client's key as a message may repeat it: bounded, and text that every database can hold."""
    cut = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"
    return cut if rawjson.storable(cut) else cut.encode("ascii", "backslashreplace").decode().replace("\0", "\\x00")


def is_null(raw: Raw | None) -> bool:
    """Whether a member is not there, or null, which counts the same."""
    return raw is None or (len(raw) == len(b"null") and bytes(raw) == b"null")


def is_string(raw: Raw) -> bool:
    """Whether the value is a string."""
    return memoryview(raw)[0] == ord('"')  # not bytes(raw), which copies an image


class Fields:
    """The members of one object at `path` ("" for the whole body). Those that are null count as absent."""

    def __init__(self, raw: Raw | bytes, path: str = "") -> None:
        try:
            members = rawjson.split_object(raw)
        except InvalidJson:
            refuse(path or "body", "expected an object")
        self.path = path
        self._members = {name: value for name, value in members.items() if not is_null(value)}

    def at(self, name: str) -> str:
        """Return the path of a member."""
        return f"{self.path}.{shown(name)}" if self.path else shown(name)

    def take(self, name: str) -> Raw | None:
        """Take a member as it is written, None where it is absent."""
        return self._members.pop(name, None)

    def need(self, name: str) -> Raw:
        """Take a member that must be there."""
        raw = self.take(name)
        return refuse(self.at(name), REQUIRED) if raw is None else raw

    def string(self, name: str) -> Raw | None:
        """Take a string as it is written, None where it is absent."""
        raw = self.take(name)
        if raw is not None and not is_string(raw):
            refuse(self.at(name), "expected a string")
        return raw

    def need_string(self, name: str) -> Raw:
        """Take a string that must be there, as it is written."""
        raw = self.string(name)
        return refuse(self.at(name), REQUIRED) if raw is None else raw

    def word(self, name: str) -> str | None:
        """Take a string and decode it: a type, a role, a name to compare."""
        raw = self.string(name)
        return None if raw is None else str(rawjson.decode(raw))

    def flag(self, name: str) -> bool | None:
        """Take true or false, None where it is absent."""
        raw = self.take(name)
        if raw is None:
            return None
        value = rawjson.decode(raw)
        return value if isinstance(value, bool) else refuse(self.at(name), "expected true or false")

    def number(self, name: str, least: float, most: float | None = None, *, whole: bool = False) -> Raw | None:
        """Take a number within bounds, as it is written, None where it is absent."""
        raw = self.take(name)
        if raw is None:
            return None
        value = rawjson.decode(raw)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            refuse(self.at(name), "expected a whole number" if whole else "expected a number")
        if value < least or (most is not None and value > most):
            bounds = f"from {least} to {most}" if most is not None else f"{least} or more"
            refuse(self.at(name), f"must be {bounds}")
        return raw

    def object(self, name: str) -> "Fields | None":
        """Take an object, None where it is absent."""
        raw = self.take(name)
        return None if raw is None else Fields(raw, self.at(name))

    def objects(self, name: str) -> "Sequence[Fields]":
        """Take an array of objects, empty where it is absent."""
        raw = self.take(name)
        return [] if raw is None else array_of_objects(raw, self.at(name))

    def forbid(self, name: str, why: str) -> None:
        """Refuse the request where it has this member."""
        if self.take(name) is not None:
            refuse(self.at(name), why)

    def end(self) -> None:
        """Refuse what is left."""
        for name in self._members:
            refuse(self.at(name), EXTRA)


def array(raw: Raw, path: str) -> list[Raw]:
    """Return the elements of an array."""
    try:
        items = rawjson.split_array(raw, _MOST_ITEMS)
    except InvalidJson:
        refuse(path, "expected an array")
    if len(items) > _MOST_ITEMS:
        refuse(path, f"has more than {_MOST_ITEMS} items")
    return items


def array_of_objects(raw: Raw, path: str) -> list[Fields]:
    """Return the elements of an array of objects."""
    return [Fields(item, f"{path}.{index}") for index, item in enumerate(array(raw, path))]


def strings(raw: Raw, path: str) -> list[str]:
    """Return an array of strings, decoded."""
    found: Any = rawjson.decode(raw)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        refuse(path, "expected an array of strings")
    return found
