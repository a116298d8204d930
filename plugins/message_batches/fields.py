"""Reads the objects of a request as Anthropic's API names their fields (`messages.0.content`) and words its refusals."""

from typing import Any, NoReturn

from msgspec import Raw

from fibatchd.plugin_api import Members, Problem, Refused, is_string, rawjson

EXTRA = "Extra inputs are not permitted"
REQUIRED = "Field required"

_LONGEST_NAME = 64  # characters of a client's key that a message repeats


def refuse(path: str, why: str) -> NoReturn:
    """Refuse the request; `path` names the field at fault, "" the whole body."""
    raise Refused(Problem(f"{path or 'body'}: {why}"))


def shown(name: str) -> str:
    """Return a client's key as a message may repeat it: bounded, and text that every database can hold."""
    cut = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"
    return cut if rawjson.storable(cut) else cut.encode("ascii", "backslashreplace").decode().replace("\0", "\\x00")


class Fields(Members):
    """The members of one object, taken by the types that the API has for them."""

    MISSING = REQUIRED
    NOT_TAKEN = EXTRA
    refuse = staticmethod(refuse)
    shown = staticmethod(shown)

    @staticmethod
    def item_path(path: str, index: int) -> str:
        """Return the path of an item of the array at `path`."""
        return f"{path}.{index}"

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

    def forbid(self, name: str, why: str) -> None:
        """Refuse the request where it has this member."""
        if self.take(name) is not None:
            refuse(self.at(name), why)


def strings(raw: Raw, path: str) -> list[str]:
    """Return an array of strings, decoded."""
    found: Any = rawjson.decode(raw)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        refuse(path, "expected an array of strings")
    return found
