"""Every setting is described, shown in the example with its default, and has the same default everywhere.

The dataclasses hold the defaults; the schema and the example repeat them for people. A setting that is added in one place
and not in the others fails here.
"""

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from fibatchd.config import (
    Batches,
    Capabilities,
    Config,
    Log,
    Metrics,
    Model,
    Price,
    Server,
    Storage,
    Tier,
    Upstream,
    core_schema,
    load,
    parse,
)
from fibatchd.config.reloading import FIXED
from fibatchd.plugin_loader import load as load_plugins

EXAMPLE = Path(__file__).parents[2] / "config" / "fibatchd.example.toml"
# A commented-out table or setting of the example, as against a comment in words.
COMMENTED_OUT = re.compile(r"^# (?=\[[\w.\[\]]+\]|\w+ = )", re.MULTILINE)
ASSIGNMENT = re.compile(r"^(?:# )?\w+ = ")

CLASSES = {
    "server": Server,
    "storage": Storage,
    "metrics": Metrics,
    "log": Log,
    "batches": Batches,
    "tiers.*": Tier,
    "models[]": Model,
    "models[].price_usd_per_million": Price,
    "models[].capabilities": Capabilities,
    "models[].upstreams[]": Upstream,
}
# Fields that are not settings, or settings under another name than the field's.
OTHER_NAMES = {
    "tiers.*": {"name": None, "daily_quota": "daily_quota_usd"},
    "models[]": {"price": "price_usd_per_million"},
    "models[].upstreams[]": {"api_key": "api_key_env"},
}


def resolved(schema):
    """The schema with its `$ref` put in."""
    if "$ref" not in schema:
        return schema
    return core_schema()["$defs"][schema["$ref"].removeprefix("#/$defs/")] | schema


def settings(schema=None, path=""):
    """Every setting of the schema and every table that holds some: (path, schema), `[]` for any item, `*` for any name."""
    for name, part in (schema or core_schema())["properties"].items():
        inner = resolved(part)
        where = f"{path}.{name}" if path else name
        yield where, inner
        if "items" in inner and "properties" in resolved(inner["items"]):
            yield from settings(resolved(inner["items"]), f"{where}[]")
        elif "properties" in inner:
            yield from settings(inner, where)
        elif "properties" in (inner.get("additionalProperties") or {}):
            yield from settings(inner["additionalProperties"], f"{where}.*")


PLUGIN_SCHEMAS = load_plugins().settings()


def plugin_settings():
    """The same of the tables that the bundled plugins contribute; the example and this file's rules hold for them, too."""
    for table, schema in PLUGIN_SCHEMAS.items():
        yield table, {"description": f"The table of the plugin {table}."} | dict(schema)
        yield from settings(schema, table)


SETTINGS = dict([*settings(), *plugin_settings()])
LEAVES = {
    path: schema
    for path, schema in SETTINGS.items()
    if not any(other.startswith((f"{path}.", f"{path}[")) for other in SETTINGS)
}


def values(document, path):
    """The values that a document has at a path with `[]` and `*` in it."""
    found = [document]
    for part in re.findall(r"\[\]|[^.\[]+", path):
        if part == "[]":
            found = [item for array in found for item in array]
        elif part == "*":
            found = [item for table in found for item in table.values()]
        else:
            found = [table[part] for table in found if part in table]
    return found


def uncommented():
    return COMMENTED_OUT.sub("", EXAMPLE.read_text("utf-8"))


def test_the_walk_sees_all_levels():
    for path in [
        "server.listen",
        "tiers.*.daily_quota_usd",
        "models[].capabilities.images",
        "models[].upstreams[].url",
        "models[].price_usd_per_million.output",
    ]:
        assert path in LEAVES
    assert len(LEAVES) > 60


@pytest.mark.parametrize("path", SETTINGS)
def test_has_a_description(path):
    description = SETTINGS[path].get("description", "")
    assert description.endswith(".")
    assert len(description) > 15


@pytest.mark.parametrize("path", LEAVES)
def test_says_what_its_absence_means(path):
    schema = LEAVES[path]
    parent, _, name = path.rpartition(".")
    if path == "extensions":
        return
    table = SETTINGS[parent.removesuffix("[]").removesuffix(".*")]
    table = (
        resolved(table["items"])
        if parent.endswith("[]")
        else table["additionalProperties"]
        if parent.endswith(".*")
        else table
    )
    ways = [name in table.get("required", ()), "default" in schema, "x-none" in schema]
    assert ways.count(True) == 1


@pytest.mark.parametrize("table", CLASSES)
def test_the_schema_has_the_defaults_of_the_dataclasses(table):
    for field in dataclasses.fields(CLASSES[table]):
        name = OTHER_NAMES.get(table, {}).get(field.name, field.name)
        if name is None:
            continue
        schema = SETTINGS[f"{table}.{name}"]
        if "default" in schema:
            default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            default = list(default) if isinstance(default, tuple) else default
            assert default == (
                int(schema["default"]) if table.endswith("price_usd_per_million") else schema["default"]
            ), name
        elif name != "data_dir":
            assert field.default in (None, dataclasses.MISSING, Capabilities()), name


@pytest.mark.parametrize("table", CLASSES)
def test_every_setting_is_a_field(table):
    fields = {field.name for field in dataclasses.fields(CLASSES[table])}
    fields |= set(OTHER_NAMES.get(table, {}).values()) | {"api_key_file"}
    names = {path.removeprefix(f"{table}.") for path in SETTINGS if path.startswith(f"{table}.")}
    assert {name for name in names if not re.search(r"[.\[]", name)} <= fields


@pytest.mark.parametrize("path", LEAVES)
def test_the_example_shows_it_with_its_default(path):
    shown = values(tomllib.loads(uncommented()), path)
    assert shown
    schema = LEAVES[path]
    if "default" in schema and not path.startswith("tiers."):
        assert shown == [schema["default"]]


def test_the_example_as_it_stands_is_the_defaults():
    config = load(EXAMPLE, environ={}, plugin_schemas=PLUGIN_SCHEMAS)
    assert dataclasses.replace(config, models=(), extensions={}, plugin_tables={}) == Config()
    assert not any(config.extensions.values())
    (model,) = config.models
    assert (model.capabilities, model.concurrency, model.upstreams[0].timeout_s) == (Capabilities(), 8, 600)


def test_the_example_with_everything_uncommented_has_no_unknown_setting():
    # Only one of the two sources of a key may be given, and echo: alone takes a delay.
    text = (
        uncommented()
        .replace('api_key_env = "MY_MODEL_KEY"\n', "")
        .replace("delay_s = 0\n", "")
        .replace("http://127.0.0.1:8000/v1", "https://h/v1")
    )
    text = re.sub(
        r"^((?:tls_|plugin_dir|password_file|ca_file|api_key_file)\w* = ).*$", r'\1"x"', text, flags=re.MULTILINE
    )
    text = text.replace('"sqlite:fibatchd.db"', '"postgresql://h/d"')
    config = parse(text, plugin_schemas=PLUGIN_SCHEMAS, environ={}, store_only=True)
    assert config.models[0].upstreams[0].tokens_per_minute == 1_000_000


def test_every_setting_of_the_example_has_a_comment():
    lines = EXAMPLE.read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        if ASSIGNMENT.match(line):
            before = number - 1
            while ASSIGNMENT.match(lines[before]):
                before -= 1
            assert re.search(r"\s# ", line) or lines[before].startswith("# "), line


def test_what_needs_a_restart_is_marked_everywhere():
    marked = {path for path, schema in SETTINGS.items() if schema.get("x-restart")}
    assert marked == set(FIXED)
    in_example = re.findall(r"\(restart\)\n(?:# )?(\w+) = ", EXAMPLE.read_text("utf-8"))
    assert sorted(in_example) == sorted(name.rpartition(".")[2] for name in FIXED)
