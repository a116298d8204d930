"""Joins OpenAPI fragments: objects member by member, arrays end to end. Everything else may be said once.

So a fragment may add to an operation of another one, an alternative to a body or a code to an answer, and can change none.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


class Clash(Exception):
    """Two fragments say the same thing, or one is none; the message says where, as a JSON Pointer."""


class Operation(NamedTuple):
    """A method (in capitals) of a path such as "/v1/batches/{batch_id}"."""

    method: str
    path: str


def join(document: dict[str, Any], fragment: Mapping[str, Any], where: str = "#") -> None:
    """Add a fragment to a document, which owns nothing of the fragment then. Raises Clash."""
    for name, value in fragment.items():
        if not isinstance(name, str):
            raise Clash(f"{where}: the key {name!r} is not a string; put it in quotes")
        at = f"{where}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in document:
            document[name] = copy.deepcopy(value)
        elif isinstance(document[name], dict) and isinstance(value, Mapping):
            join(document[name], value, at)
        elif isinstance(document[name], list) and isinstance(value, list):
            document[name] = document[name] + copy.deepcopy(value)
        else:
            raise Clash(f"{at} is said twice")


def operations(document: Mapping[str, Any]) -> Iterator[tuple[Operation, dict[str, Any]]]:
    """Give the operations of a document or fragment, each with the object that describes it."""
    for path, item in document.get("paths", {}).items():
        for method, described in item.items():
            if method in METHODS:
                yield Operation(method.upper(), path), described
