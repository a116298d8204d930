"""Problems of a configuration, in words: where, what stands there, and what would be right.

JSON Schema says what is allowed; this module turns its errors into one line each. A value is shown as the file has it,
before `${NAME}` was replaced, since what the environment holds may be a secret.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

# JSON Schema takes 8.0 for an integer; TOML does not, and neither does code that counts with it.
_Validator = extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)

KeyPath = tuple[str | int, ...]
"""Keys and array indices from the document's root to a value."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SHOWN_CHARACTERS = 60
_TYPE_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "a table",
}
_BOUNDS = {
    "minimum": " of at least {}",
    "maximum": " of at most {}",
    "exclusiveMinimum": " above {}",
    "exclusiveMaximum": " below {}",
    "minItems": " of {} or more items",
    "maxItems": " of at most {} items",
    "minLength": " of {} or more characters",
    "maxLength": " of at most {} characters",
    "pattern": " that matches {}",
}


class Problem(NamedTuple):
    """One thing that is wrong at a path.

    shows_value  the text goes on from the value as the file has it: `is not …` becomes `"x" is not …`
    """

    path: KeyPath
    text: str
    shows_value: bool = False

    def line(self, written: object) -> str:
        """The problem as people read it; `written` is the document before `${NAME}` was replaced."""
        value = f"{quoted(value_at(written, self.path))} " if self.shows_value else ""
        return f"{path_text(self.path)}: {value}{self.text}" if self.path else f"{value}{self.text}"


def path_text(path: KeyPath) -> str:
    """`models[2].upstreams[0].url`: a path as people write it."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if _BARE_KEY.fullmatch(part) else f".{_string(part)}"
    return text.removeprefix(".")


def quoted(value: object) -> str:
    """A value as TOML writes it, long ones cut and compound ones only named: a problem fits one line."""
    match value:
        case dict():
            return "a table"
        case []:
            return "[]"
        case list():
            return "an array"
        case bool():
            text = str(value).lower()
        case str():
            text = _string(value)
        case _:
            text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _string(text: str) -> str:
    """A string in quotes, all of it printable: a terminal or a log must not obey what a file holds."""
    shown = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown)


def suggestion(name: str, known: Collection[str]) -> str:
    """The end of a sentence on an unknown name: the known name that was perhaps meant, else all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known are: {', '.join(known)}" if known else "there are none here"


def value_at(document: object, path: KeyPath) -> object:
    """What stands at a path, or None."""
    value: Any = document
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def schema_problems(schema: Mapping[str, Any], document: object, root: KeyPath = ()) -> Iterator[Problem]:
    """Every error that the schema (draft 2020-12) finds in the document, which stands at `root` of a larger one."""
    for error in _Validator(schema).iter_errors(document):
        yield from _translated(error, root)


def _translated(error: ValidationError, root: KeyPath) -> Iterator[Problem]:
    path = (*root, *error.absolute_path)
    match error.validator, error.instance:
        case "additionalProperties" | "unevaluatedProperties", dict() as table:
            yield from _unknown_names(table, error.schema, path)
        case "required", dict() as table:
            # jsonschema reports each missing name by itself, but tells which only in its message.
            yield from (Problem((*path, name), "is missing") for name in error.validator_value if name not in table)
        case "dependentRequired", dict() as table:
            for name, needed in error.validator_value.items():
                missing = [other for other in needed if name in table and other not in table]
                yield from (Problem((*path, other), f"is missing: `{name}` needs it") for other in missing)
        case "uniqueItems", _:
            yield Problem(path, "holds an item twice")
        case _:
            schema = error.schema if isinstance(error.schema, dict) else {}
            text = f"is not {_expectation(error, schema)}"
            if "propertyNames" in error.absolute_schema_path:
                yield Problem((*path, error.instance), f"{quoted(error.instance)} {text}")
            elif schema.get("writeOnly"):
                yield Problem(path, f"the value {text}")
            else:
                yield Problem(path, text, shows_value=True)


def _unknown_names(table: Mapping[str, object], schema: Mapping[str, Any], path: KeyPath) -> Iterator[Problem]:
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for name in table:
        if name not in known and not any(re.search(pattern, name) for pattern in patterns):
            kind = "table" if quoted(table[name]) in ("a table", "an array") else "setting"
            yield Problem((*path, name), f"unknown {kind}; {suggestion(name, known)}")


def _expectation(error: ValidationError, schema: Mapping[str, Any]) -> str:
    """What the value should have been: in the schema's own words if it has any, else told from its keywords."""
    if "x-expects" in schema:
        return str(schema["x-expects"])
    if "enum" in schema:
        return f"one of {', '.join(map(quoted, schema['enum']))}"
    if not schema:
        return "allowed here"
    if "type" not in schema:
        return f"as its schema asks: {error.validator} {json.dumps(error.validator_value, ensure_ascii=False)}"
    types: list[str] = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(_TYPE_NAMES.get(name, name) for name in types) + "".join(_bounds(schema))


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    words = _BOUNDS
    if "minimum" in schema and "maximum" in schema:
        yield f" from {schema['minimum']} to {schema['maximum']}"
        words = {keyword: text for keyword, text in _BOUNDS.items() if keyword not in ("minimum", "maximum")}
    for keyword, text in words.items():
        if keyword in schema:
            yield text.format(schema[keyword])


def without(document: object, paths: Iterable[KeyPath]) -> Any:
    """A copy of the document without the values at these paths; an item of an array leaves None, so that indices stay.

    What remains has the right types, so that further checks need not guard against the wrong ones.
    """
    gone = set(paths)

    def copy(value: object, path: KeyPath) -> object:
        match value:
            case dict():
                return {key: copy(item, (*path, key)) for key, item in value.items() if (*path, key) not in gone}
            case list():
                return [None if (*path, i) in gone else copy(item, (*path, i)) for i, item in enumerate(value)]
            case _:
                return value

    return copy(document, ()) if () not in gone else {}
