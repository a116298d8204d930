"""TOML text to a plain document: syntax, `${NAME}` from the environment, and the values that no setting may have."""

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fibatchd.config.problems import KeyPath, Problem
from fibatchd.errors import ConfigError

_VARIABLE = re.compile(r"\$\{([^}]*)(\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SYNTAX_ERROR = re.compile(r"(?P<what>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)", re.DOTALL)


class Document(NamedTuple):
    """A file's content.

    written     as it stands there
    expanded    with the environment's values put in
    problems    what is wrong with single values
    unresolved  paths of the values of which a variable is not set; they stand in `expanded` as they are written
    """

    written: dict[str, Any]
    expanded: dict[str, Any]
    problems: list[Problem]
    unresolved: set[KeyPath]


def read_document(text: str, environ: Mapping[str, str]) -> Document:
    """Parse TOML 1.0 and expand it. Raises ConfigError, with line and column, where the text is not TOML."""
    written = _parse(text)
    document = Document(written, {}, [], set())
    document.expanded.update(_walk(written, (), lambda value, path: _checked(value, path, environ, document)))
    return document


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(["arrays or tables are nested too deeply"]) from None
    except ValueError as error:  # TOMLDecodeError, or Python's limit on the digits of an integer
        match = _SYNTAX_ERROR.fullmatch(str(error))
        place = f"line {match['line']}, column {match['column']}" if match else "the file"
        what = match["what"] if match else str(error)
        raise ConfigError([f"{place}: not TOML: {what}"]) from None


def _walk(value: Any, path: KeyPath, leaf: Callable[[Any, KeyPath], Any]) -> Any:
    match value:
        case dict():
            return {key: _walk(item, (*path, key), leaf) for key, item in value.items()}
        case list():
            return [_walk(item, (*path, index), leaf) for index, item in enumerate(value)]
        case _:
            return leaf(value, path)


def _checked(value: Any, path: KeyPath, environ: Mapping[str, str], document: Document) -> Any:
    """A single value with its variables replaced; problems are noted in the document."""
    match value:
        case str():
            expanded = _expanded(value, path, environ, document)
            if _CONTROL.search(expanded):
                # It would split a header or a log line; no setting has a use for one.
                document.problems.append(Problem(path, "holds a control character, such as a line break"))
            return expanded
        case float() if not math.isfinite(value):
            document.problems.append(Problem(path, f"{value} is not a finite number"))
    return value


def _expanded(text: str, path: KeyPath, environ: Mapping[str, str], document: Document) -> str:
    def replacement(match: re.Match[str]) -> str:
        name, brace = match.groups()
        if not brace or not _NAME.fullmatch(name):
            document.problems.append(
                Problem(path, f"{match[0]} is not a variable: write ${{NAME}}, of letters, digits and _")
            )
        elif name not in environ:
            document.unresolved.add(path)
            document.problems.append(Problem(path, f"the environment variable {name} is not set"))
        else:
            return environ[name]
        return match[0]

    return _VARIABLE.sub(replacement, text)
