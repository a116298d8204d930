"""From a file to a Config, with every problem of it found first.

The order matters: syntax, environment, schema, then the checks that no schema can say, on what the schema left standing.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from fibatchd.config import checks, surroundings
from fibatchd.config.building import build
from fibatchd.config.document import Document, read_document
from fibatchd.config.problems import KeyPath, Problem, schema_problems, without
from fibatchd.config.settings import Config
from fibatchd.errors import ConfigError

Schema = Mapping[str, Any]

_NO_SCHEMAS: Mapping[str, Schema] = {}


@cache
def core_schema() -> dict[str, Any]:
    """The JSON Schema of the core's own tables."""
    schema: dict[str, Any] = json.loads(files("fibatchd_schemas").joinpath("config.schema.json").read_bytes())
    return schema


def load(
    path: Path | None,
    *,
    plugin_schemas: Mapping[str, Schema] = _NO_SCHEMAS,
    known_extensions: Collection[str] | None = None,
    known_endpoints: Collection[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    store_only: bool = False,
) -> Config:
    """Read a configuration file; without one, everything has its default and there are no models.

    plugin_schemas    JSON Schemas of the tables that plugins contribute, by the table's name
    known_extensions  names that [extensions] may have; None: any
    known_endpoints   paths that models and upstreams may list; None: any
    environ           where `${NAME}` and `api_key_env` are looked up
    store_only        for commands that only open the store, perhaps as another user than the daemon: no files and keys
                      are looked at, and a variable may be unset where only the daemon needs it (upstreams, most of
                      [server], plugins' tables); such a value is left as it is written

    Raises ConfigError with every problem found.
    """
    return parse(
        "" if path is None else _read(path),
        plugin_schemas=plugin_schemas,
        known_extensions=known_extensions,
        known_endpoints=known_endpoints,
        environ=environ,
        store_only=store_only,
    )


def parse(
    text: str,
    *,
    plugin_schemas: Mapping[str, Schema] = _NO_SCHEMAS,
    known_extensions: Collection[str] | None = None,
    known_endpoints: Collection[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    store_only: bool = False,
) -> Config:
    """The configuration that a TOML text describes; parameters and errors are those of `load`."""
    document = read_document(text, environ)
    tables = {name: document.expanded.pop(name, {}) for name in plugin_schemas}
    found = [*document.problems, *_schema_problems(document, tables, plugin_schemas)]
    sound = without(document.expanded, [problem.path for problem in found])
    found += _cross_problems(sound, document, known_extensions, known_endpoints)
    keys: dict[KeyPath, str] = {}
    if not store_only:
        keys, missing = surroundings.read_keys(sound, environ)
        found += [*surroundings.check_files(sound), *missing]
    excused = {path for path in document.unresolved if store_only and _is_daemons(path, plugin_schemas)}
    if problems := [problem for problem in found if _counts(problem, document, excused)]:
        raise ConfigError(_lines(problems, document))
    return build(document.expanded, tables, keys, environ)


def plugin_dir(path: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """`server.plugin_dir` alone, read before the rest can be checked: the plugins there say what the rest may hold.

    None where the setting is absent or wrong; `load` tells of what is wrong. Raises ConfigError where the file cannot be
    read or is not TOML.
    """
    document = read_document("" if path is None else _read(path), environ)
    server = document.expanded.get("server")
    folder = server.get("plugin_dir") if isinstance(server, dict) else None
    return Path(folder) if isinstance(folder, str) and Path(folder).is_dir() else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path} is not UTF-8: byte {error.start} cannot be read"]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError([f"{path} cannot be read: {reason}"]) from None


def _schema_problems(
    document: Document, tables: Mapping[str, object], plugin_schemas: Mapping[str, Schema]
) -> Iterator[Problem]:
    schema = core_schema()
    # Plugins' tables were taken out, for `#/$defs/…` means the schema it stands in; here only the names count.
    named = schema | {"properties": schema["properties"] | dict.fromkeys(plugin_schemas, True)}
    yield from schema_problems(named, document.expanded)
    for name, plugin_schema in plugin_schemas.items():
        if name in schema["properties"]:
            yield Problem((name,), "a plugin claims this table, which is the core's")
        try:
            Draft202012Validator.check_schema(plugin_schema)
        except SchemaError as error:
            yield Problem((name,), f"the schema that a plugin has for this table is not valid: {error.message}")
        else:
            yield from schema_problems(plugin_schema, tables[name], (name,))


def _cross_problems(
    sound: dict[str, Any],
    document: Document,
    known_extensions: Collection[str] | None,
    known_endpoints: Collection[str] | None,
) -> Iterator[Problem]:
    written_tiers = document.written.get("tiers")
    tiers = {*Config().tiers, *(written_tiers if isinstance(written_tiers, dict) else ())}
    yield from checks.check_server(sound.get("server", {}))
    yield from checks.check_storage(sound.get("storage", {}))
    if address := sound.get("metrics", {}).get("listen"):
        yield from checks.check_listen(address, ("metrics", "listen"))
    yield from checks.check_extensions(sound.get("extensions", {}), known_extensions)
    yield from checks.check_batches(sound.get("batches", {}), tiers)
    yield from checks.check_body_sizes(sound.get("server", {}), sound.get("batches", {}))
    yield from checks.check_models(sound.get("models", ()), tiers, known_endpoints)


def _is_daemons(path: KeyPath, plugin_tables: Collection[str]) -> bool:
    """Whether only the daemon needs the value."""
    match path:
        case ("server", name, *_):
            return name != "data_dir"
        case ("models", _, "upstreams", *_):
            return True
        case _:
            return path[0] in plugin_tables


def _counts(problem: Problem, document: Document, excused: Collection[KeyPath]) -> bool:
    """Whether a problem is told of; where a variable is not set, nothing but that is."""
    if problem.path in document.unresolved:
        return problem in document.problems and problem.path not in excused
    return True


def _lines(problems: list[Problem], document: Document) -> list[str]:
    """One line a problem, in the order of paths; the same is said once."""
    unique = dict.fromkeys(sorted(problems, key=lambda problem: [(isinstance(p, str), p) for p in problem.path]))
    return [problem.line(document.written) for problem in unique]
