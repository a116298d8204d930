"""Reads the objects of a request as OpenAI's API names their fields (`input[0].content`); says what is not carried over."""

import json
from typing import Any, NoReturn

from msgspec import Raw

from fibatchd.plugin_api import Members as AnyMembers
from fibatchd.plugin_api import Problem, Refused, rawjson

NOT_CARRIED = "cannot be carried over to this model's server"

_LONGEST_NAME = 64  # characters of a client's key that a message repeats


def refuse(path: str, why: str = NOT_CARRIED) -> NoReturn:
    """Refuse the request because of the field at `path`, such as `input[0].content`."""
    raise Refused(Problem(f"{path}: {why}", path))


class Members(AnyMembers):
    """The members of one object, taken by what becomes of them."""

    NOT_TAKEN = NOT_CARRIED

    @staticmethod
    def shown(name: str) -> str:
        """Return a client's key as a path holds it: as it is where it is a plain word, else quoted and bounded."""
        return name if name.isidentifier() and len(name) <= _LONGEST_NAME else json.dumps(name[:_LONGEST_NAME])

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
