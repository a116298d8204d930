"""Reads the fragments and makes the document of them."""

import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import structlog

from fibatchd import __version__
from fibatchd.plugin_loader import Plugins

from .completing import KEY, Always, complete
from .joining import Clash, Operation, join, operations

CORE = ("openapi.yaml", "batches.yaml", "interactive.yaml", "account.yaml", "admin.yaml")
SCHEMA_FILE = ".schema.json"
INTERNAL = "x-internal"
"""Marks an operation that is served and is nothing for clients of the API."""

log = structlog.get_logger(__name__)


def document(plugins: Plugins) -> dict[str, Any]:
    """Return the OpenAPI document of the core and these plugins. A plugin whose fragment does not fit is left out, and the
    log says why; `fibatchd.testing.check_plugin` finds that before."""
    whole: dict[str, Any] = {}
    for name in CORE:
        join(whole, read_fragment(__package__, name))
    whole["info"]["version"] = __version__
    core = Always(**whole.pop(KEY))
    always = {operation: core for operation, _ in operations(whole)}
    for plugin, fragment in fragments(plugins):
        try:
            whole = with_fragment(whole, fragment, core, always)
        except Clash as error:
            log.error("plugin left out of the API's description", plugin=plugin, reason=str(error))
    _leave_out_internal(whole)
    complete(whole, always)
    _embed_schemas(whole["components"]["schemas"])
    whole["components"] = whole.pop("components")  # what a reader looks up stands behind what is read
    return whole


def with_fragment(
    whole: Mapping[str, Any], fragment: Mapping[str, Any], core: Always, always: dict[Operation, Always]
) -> dict[str, Any]:
    """Return the document with a plugin's fragment, noting in `always` what its operations have in common. Raises Clash."""
    joined: dict[str, Any] = {}
    join(joined, whole)
    join(joined, {name: part for name, part in fragment.items() if name != KEY})
    own = core.but(fragment.get(KEY, {}))
    for operation, _ in operations(fragment):
        always.setdefault(operation, own)
    return joined


def fragments(plugins: Plugins) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give what each plugin says of its routes, with its name."""
    for implementation in plugins.hook.fibatchd_openapi.get_hookimpls():
        fragment: Any = implementation.function()
        yield str(plugins.manager.get_name(implementation.plugin)), fragment


def read_fragment(package: str, name: str = "openapi.yaml") -> dict[str, Any]:
    """Return the fragment in a YAML file of a package."""
    import yaml  # a start does not wait for what is needed when the document is first asked for

    text = (resources.files(package) / name).read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found


def _leave_out_internal(whole: dict[str, Any]) -> None:
    paths = whole["paths"]
    for method, path in [operation for operation, described in operations(whole) if described.get(INTERNAL)]:
        del paths[path][method.lower()]
        if not paths[path]:
            del paths[path]


def _embed_schemas(schemas: dict[str, Any]) -> None:
    """Replace each component that is a file of the package `fibatchd_schemas` by what stands in it."""
    for name, schema in schemas.items():
        file = schema.get("$ref", "")
        if file.endswith(SCHEMA_FILE):
            text = (resources.files("fibatchd_schemas") / file).read_text(encoding="utf-8")
            embedded = _moved(json.loads(text), f"#/components/schemas/{name}")
            for aside in ("$schema", "$id", "$comment"):
                embedded.pop(aside, None)
            schemas[name] = embedded | {key: value for key, value in schema.items() if key != "$ref"}


def _moved(schema: Any, to: str) -> Any:
    """Return a schema whose references to itself hold where it is put."""
    if isinstance(schema, list):
        return [_moved(item, to) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: to + value[1:] if key == "$ref" and isinstance(value, str) and value.startswith("#") else _moved(value, to)
        for key, value in schema.items()
    }
