"""Whatever a file holds, the answer is a Config or a ConfigError of one-line problems: never a traceback."""

import json
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from fibatchd.config import Config, core_schema, parse
from fibatchd.errors import ConfigError

ENVIRON = {"SET": "value", "KEY": "sk-1"}


def names(schema):
    """Every name of a setting or table that the schema has anywhere."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        for part in schema.values():
            yield from names(part)


def in_toml(value):
    """A value on one line; JSON's strings are TOML's where no surrogate is in them."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {in_toml(item)}" for key, item in value.items()) + "}"
        case list():
            return f"[{', '.join(map(in_toml, value))}]"
        case str() | bool():
            return json.dumps(value)
        case _:
            return str(value)


WORDS = [
    "",
    "x",
    "${SET}",
    "${UNSET}",
    "${",
    "echo:",
    "http://h/v1",
    "http://[",
    "sqlite:",
    "anthropic",
    "0.1",
    "fd://",
    "[::1]:5",
    "/v1/messages",
    "KEY",
]
SCALARS = st.one_of(
    st.sampled_from(WORDS),
    st.text(st.characters(codec="ascii"), max_size=8),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.dates(),
)
NAMES = st.one_of(
    st.sampled_from(sorted({*names(core_schema()), "free", "files", "hooks", "a b"})), st.text("abc.", max_size=3)
)
TABLES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)  # fmt: skip
UPSTREAMS = st.fixed_dictionaries(
    {"url": TABLES},
    optional={name: TABLES for name in core_schema()["$defs"]["upstream"]["properties"] if name != "url"},
)
MODELS = st.fixed_dictionaries(
    {"id": SCALARS, "upstreams": st.lists(UPSTREAMS | TABLES, max_size=2) | TABLES},
    optional={
        name: TABLES for name in core_schema()["$defs"]["model"]["properties"] if name not in ("id", "upstreams")
    },
)
DOCUMENTS = st.dictionaries(NAMES, TABLES, max_size=5) | st.fixed_dictionaries(
    {"models": st.lists(MODELS, max_size=3)},
    optional={"server": TABLES, "tiers": TABLES, "storage": TABLES, "batches": TABLES},
)


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS, st.booleans())
def test_any_document(document, store_only):
    text = "".join(f"{json.dumps(key)} = {in_toml(value)}\n" for key, value in document.items())
    check(text, store_only)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.booleans())
def test_any_text(text, store_only):
    check(text, store_only)


def check(text, store_only):
    with problems_on_one_line_each():
        config = parse(
            text,
            plugin_schemas={"hooks": {"type": "object", "properties": {"url": {"type": "string"}}}},
            known_extensions={"files"},
            known_endpoints={"/v1/chat/completions"},
            environ=ENVIRON,
            store_only=store_only,
        )
        assert isinstance(config, Config)


@contextmanager
def problems_on_one_line_each():
    try:
        yield
    except ConfigError as error:
        problems = error.problems
    else:
        return
    assert problems
    assert all(problem.isprintable() for problem in problems)
