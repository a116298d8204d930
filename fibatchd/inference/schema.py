"""Checks of request bodies against the JSON Schemas of the package `fibatchd_schemas`, with errors a client can act on.

The verdict is jsonschema-rs's, which is the reference implementation's at a hundredth of its time. The sentences are our
own: they name the field and what was expected there, and never quote a client's text.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import jsonschema_rs
from jsonschema_rs import ValidationError

_LONGEST_NUMBER = 20  # characters: a longer one is not repeated
_LONGEST_KEY = 64  # characters: a longer one is cut


class Problem(NamedTuple):
    """What is wrong with a value: the field at fault as OpenAI's `param` names it ("" for the whole), and a sentence."""

    param: str
    message: str


class BodySchema:
    """A JSON Schema (draft 2020-12), compiled once; safe to use from several threads.

    One annotation beyond the draft's is used: `x-expects` beside a keyword says in words what the value must be, and ends
    the sentence "expected …" of an error.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._validator = jsonschema_rs.Draft202012Validator(schema)

    def problem(self, value: Any) -> Problem | None:
        """Return the first problem of a decoded JSON value (see `rawjson.decode`), or None if it is valid. Of the value, lone
        surrogates may be other characters afterwards."""
        try:
            return self._first_problem(value)
        except UnicodeEncodeError:
            # The validator cannot take a lone surrogate. No schema names one, so that any other character does as well.
            _replace_surrogates(value)
            return self._first_problem(value)

    def _first_problem(self, value: Any) -> Problem | None:
        try:
            # Not `iter_errors`: it is no iterator, but gathers all errors first, which takes a second for a hundred thousand.
            self._validator.validate(value)
            return None
        except ValidationError as first:
            error = _deepest(first)
        param = _param(value, [*error.instance_path, *_key_at_fault(error)])
        sentence = self._sentence(error)
        return Problem(param, f"{param}: {sentence}" if param else sentence)

    def _sentence(self, error: ValidationError) -> str:
        kind: Any = error.kind
        found = error.instance
        schema = _at(self._schema, error.schema_path[:-1])
        if kind.name == "required":
            expected = self._resolved(schema.get("properties", {}).get(kind.property, {})).get("x-expects")
            return f"missing, expected {expected}" if expected else "missing"
        if kind.name == "propertyNames":
            kind, found = kind.error.kind, kind.error.instance
            return f"a key {_BOUNDS[kind.name](kind.limit, found)}" if kind.name in _BOUNDS else "a key is not allowed"
        if kind.name in _BOUNDS:
            return _BOUNDS[kind.name](kind.limit, found)
        if hasattr(kind, "unexpected"):
            return "unknown key"
        expected = schema.get("x-expects") or _EXPECTED.get(kind.name, _expected_otherwise)(kind)
        return f"expected {expected}" + (f", got {_type_of(found)}" if kind.name == "type" else "")

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = _at(self._schema, schema["$ref"].removeprefix("#/").split("/"))
        return schema


@cache
def load_schema(name: str) -> BodySchema:
    """Return the schema `name`.schema.json of the package `fibatchd_schemas`, compiled at the first call."""
    file = resources.files("fibatchd_schemas") / f"{name}.schema.json"
    return BodySchema(json.loads(file.read_text(encoding="utf-8")))


def _at(schema: Any, path: Sequence[str | int]) -> dict[str, Any]:
    for step in path:
        schema = schema[step]
    return schema  # type: ignore[no-any-return]


def _deepest(error: ValidationError) -> ValidationError:
    """Of the branches of an anyOf or oneOf, the one that fits furthest says best what is wrong."""
    kind: Any = error.kind
    branches = [branch[0] for branch in getattr(kind, "context", []) if branch]
    deeper = [inner for inner in map(_deepest, branches) if len(inner.instance_path) > len(error.instance_path)]
    return max(deeper, key=lambda inner: len(inner.instance_path), default=error)


def _key_at_fault(error: ValidationError) -> list[str]:
    kind: Any = error.kind
    if kind.name == "required":
        return [kind.property]
    return kind.unexpected[:1] if hasattr(kind, "unexpected") else []


def _param(value: Any, path: Sequence[str | int]) -> str:
    """Write the path to a part of `value` as `messages[0].content`, long keys cut."""
    written = ""
    for step in path:
        if isinstance(value, list):
            written += f"[{step}]"
            value = value[int(step)]
        else:
            key = str(step)  # the validator gives the key "50256" as a number
            written += f".{_shortened(key)}"
            value = value.get(key) if isinstance(value, dict) else None
    return written.removeprefix(".")


def _shortened(key: str) -> str:
    return key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "…"


def _type_of(found: Any) -> str:
    return next(name for type_, name in _PYTHON_TYPES if isinstance(found, type_))


def _number(found: float) -> str:
    """Write a number for a message; a long one (it may be thousands of digits) is only called so."""
    if abs(found) < 10**_LONGEST_NUMBER and len(repr(found)) <= _LONGEST_NUMBER:
        return repr(found)
    return "a longer number"


def _one_of(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _items(limit: int, unit: str) -> str:
    return f"{limit} {unit}" if limit == 1 else f"{limit} {unit}s"


def _at_least(unit: str) -> Callable[[int, Any], str]:
    return lambda limit, found: "must not be empty" if limit == 1 else f"must have at least {_items(limit, unit)}"


def _at_most(unit: str) -> Callable[[int, Any], str]:
    return lambda limit, found: f"must have at most {_items(limit, unit)}, has {len(found)}"


_PYTHON_TYPES: list[tuple[type, str]] = [
    (type(None), "null"),
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number"),
    (str, "a string"),
    (list, "an array"),
    (dict, "an object"),
]

_SCHEMA_TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}

_BOUNDS: dict[str, Callable[[Any, Any], str]] = {
    "minimum": lambda limit, found: f"must be at least {limit}, got {_number(found)}",
    "maximum": lambda limit, found: f"must be at most {limit}, got {_number(found)}",
    "exclusiveMinimum": lambda limit, found: f"must be more than {limit}, got {_number(found)}",
    "exclusiveMaximum": lambda limit, found: f"must be less than {limit}, got {_number(found)}",
    "minLength": _at_least("character"),
    "maxLength": _at_most("character"),
    "minItems": _at_least("item"),
    "maxItems": _at_most("item"),
    "minProperties": _at_least("key"),
    "maxProperties": _at_most("key"),
}

_EXPECTED: dict[str, Callable[[Any], str]] = {
    "type": lambda kind: _one_of([_SCHEMA_TYPES[name] for name in kind.types if name != "null"]) or "null",
    "enum": lambda kind: _one_of([json.dumps(option) for option in kind.options if option is not None]),
    "const": lambda kind: json.dumps(kind.expected_value),
}


def _expected_otherwise(kind: Any) -> str:
    return f"something that satisfies {kind.name!r} of the schema"


def _replace_surrogates(value: Any) -> None:
    """Put a private-use character of its own in the place of each lone surrogate, so that lengths and keys stay. In place: a
    body may be one long string, of which there should be no more copies than it takes."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            for name, item in list(part.items()):
                del part[name]
                part[_plain(name)] = _plain(item)
            waiting += part.values()
        elif isinstance(part, list):
            for index, item in enumerate(part):
                part[index] = _plain(item)
            waiting += part


def _plain(value: Any) -> Any:
    """Return a string with U+D800…U+DFFF as U+E000…U+E7FF; what is no string, as it is."""
    if not isinstance(value, str) or value.isascii():
        return value
    encoded = value.encode("utf-8", "surrogatepass")
    for second in range(0xA0, 0xC0):
        encoded = encoded.replace(bytes([0xED, second]), bytes([0xEE, second - 0x20]))
    return encoded.decode()
