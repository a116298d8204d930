"""Writes docs/configuration.md, the reference of all settings, from where they are defined: the core's JSON Schema
(schemas/config.schema.json) and the schemas of the tables that the bundled plugins add.

    make reference

A test (tests/rules/test_settings_reference.py) says when the page is stale.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fibatchd.config import core_schema
from fibatchd.plugin_loader import load

PAGE = Path(__file__).parents[1] / "configuration.md"
HEAD = """\
# Configuration

<!-- Made by `make reference` from schemas/config.schema.json and the plugins' own schemas: change it there. -->

Every setting, with its default. One TOML file holds them all, and names what is not the default; `fibatchd serve --config
FILE` reads it. Without a file everything has its default, and there are no models.

```console
$ fibatchd check-config --config my-server/fibatchd.toml
OK
…
```

tells every mistake at once, each with its place. The same settings as a file to start from, with more words on each:
[fibatchd.example.toml](../config/fibatchd.example.toml).

- `${NAME}` in any value is replaced by the environment's variable of that name.
- Names that end in `_s` are in seconds, those in `_bytes` in bytes. Money is a decimal in quotes.
- `SIGHUP` reads the file again, while work goes on; a file that is wrong changes nothing. Settings marked **restart** keep
  their value until the next start.
- An unknown name is a mistake, never ignored.
"""
Schema = Mapping[str, Any]
_COUNTLESS = 1_000_000_000  # the schema's bound where any number makes sense


def reference() -> str:
    """Return the page."""
    core = core_schema()
    tables = [*core["properties"].items(), *sorted(load().settings().items())]
    return "\n".join([HEAD, *(section for name, part in tables for section in _sections(name, part, core))])


def _sections(path: str, schema: Schema, core: Schema) -> Iterator[str]:
    """Give the section of the table at a path, then those of the tables inside it."""
    schema = _resolved(schema, core)
    title, description = f"[{path}]", schema.get("description", f"Settings of the extension `{path}`.")
    named = schema.get("additionalProperties")
    if "items" in schema:
        title, schema = f"[[{path}]]", _resolved(schema["items"], core)
    elif named and "properties" in named:
        title, schema = f"[{path}.NAME]", named
    elif named:
        switches = ", ".join(f"`{name}`" for name in sorted(load().names))
        schema = {"properties": {"NAME": named | {"default": False, "description": f"Of those here: {switches}."}}}
    rows, inner = [], []
    for name, given in schema["properties"].items():
        part = _resolved(given, core)
        if _is_table(part, core):
            inner.append((f"{path}.{name}", part))
        else:
            rows.append(_row(name, part, name in schema.get("required", ())))
    yield "\n".join([f"## `{title}`\n", f"{description}\n", "| setting | default | what |", "|---|---|---|", *rows, ""])
    for where, part in inner:
        yield from _sections(where, part, core)


def _is_table(schema: Schema, core: Schema) -> bool:
    return "properties" in schema or ("items" in schema and "properties" in _resolved(schema["items"], core))


def _resolved(schema: Schema, core: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    return {**core["$defs"][schema["$ref"].removeprefix("#/$defs/")], **schema}


def _row(name: str, schema: Schema, required: bool) -> str:
    words = [schema["description"], _values(name, schema), "**restart**" if schema.get("x-restart") else ""]
    cells = f"`{name}`", _default(schema, required), " ".join(filter(None, words))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(schema: Schema, required: bool) -> str:
    if required:
        return "required"
    if "default" in schema:
        return f"`{json.dumps(schema['default'])}`"
    return f"*{schema['x-none']}*"


def _values(name: str, schema: Schema) -> str:
    """Return which values there are, unless the name says it: any time, any size, any path."""
    if "enum" in schema:
        return "One of " + ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"]) + "."
    if "x-expects" in schema:
        expects = schema["x-expects"]
        return "" if name.endswith(("_s", "_bytes")) or expects == "a path" else f"({expects[0].upper()}{expects[1:]}.)"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None or name.endswith("_s"):
        return ""
    return f"({low} or more.)" if high == _COUNTLESS else f"({low} to {high}.)"


if __name__ == "__main__":
    PAGE.write_text(reference(), "utf-8")
