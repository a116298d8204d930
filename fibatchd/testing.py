"""Checks for plugin authors: `await check_plugin(module, "name")` in a test of the plugin's own.

Each check is a promise that the daemon relies on. A broken one raises AssertionError (or ConfigError from the loader,
StoreError from the store) that names the hook and what is wrong.
"""

import importlib.metadata
import inspect
import json
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import jsonschema
import trio
from quart import Blueprint, Quart
from structlog.testing import capture_logs

from fibatchd import config, plugin_loader
from fibatchd.config import Config
from fibatchd.context import Context
from fibatchd.daemon import compose
from fibatchd.inference.endpoint import Endpoint, Problem
from fibatchd.metrics import Metric
from fibatchd.plugin_loader import Plugins
from fibatchd.store import moving
from fibatchd.store.migrate import Migration
from fibatchd.store.opening import open_store
from fibatchd.upstream.fleet import Fleet
from fibatchd.web.app import create_app
from fibatchd.web.openapi import document, operations, served

START_S = 10.0
_BODIES = (b"{}", b'{"model":"m"}', b'{"model":"m","stream":true}', b'{"model":1,"input":[],"messages":{}}')


@asynccontextmanager
async def plugin_context(
    plugin: object, name: str, settings: Config | None = None
) -> AsyncIterator[tuple[Plugins, Context]]:
    """Give a context such as a daemon has, with this plugin beside the installed ones, on an SQLite file of its own. By
    default the plugin is switched on and nothing else is configured."""
    plugins = plugin_loader.load(extra={} if _is_installed(name) else {name: plugin})
    if settings is None:
        settings = config.parse(
            f"[extensions]\n{name} = true\n", plugin_schemas=plugins.settings(), known_extensions=plugins.names
        )
    fleet = Fleet()
    await fleet.update(settings)
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(
            "sqlite:plugin.db", Path(folder), migrations=plugins.migrations(), exclusive=True
        ) as store:
            yield plugins, compose(settings, store, fleet, plugins)


async def check_plugin(plugin: object, name: str, settings: Config | None = None) -> None:
    """Check all that a plugin implements: hooks, schemas, migrations, endpoints, routes, services, metrics, commands."""
    async with plugin_context(plugin, name, settings) as (plugins, context):
        implemented = {
            caller.name for caller in plugins.manager.get_hookcallers(plugins.manager.get_plugin(name)) or ()
        }
        assert implemented, f"{name} implements no hook: mark its functions with hookimpl"
        for schema in _of(plugins, name, "fibatchd_settings", {}).values():
            _check_settings(schema)
        _check_migrations(list(_of(plugins, name, "fibatchd_migrations", [])), name)
        await context.store.read(moving.tables, context.store.dialect)  # raises where one could not be moved
        for endpoint in _of(plugins, name, "fibatchd_endpoints", [], context):
            check_endpoint(endpoint)
        for blueprint in _of(plugins, name, "fibatchd_routes", [], context):
            assert isinstance(blueprint, Blueprint), "fibatchd_routes: not a Quart blueprint"
        check_description(plugins, name, context)
        for prefix, shape in _of(plugins, name, "fibatchd_error_shapes", {}).items():
            assert prefix.startswith("/"), f"fibatchd_error_shapes: {prefix!r} is no path"
            json.dumps(shape(404, "nothing here", None, None, "req_0"))
        for service in _of(plugins, name, "fibatchd_services", [], context):
            await check_service(service)
        for metric in context.metrics:
            check_metric(metric)
        for command in _of(plugins, name, "fibatchd_commands", []):
            assert isinstance(command, click.Command), "fibatchd_commands: not a click command"
            assert command.help, f"the command {command.name} has no help text"


def check_endpoint(endpoint: Endpoint) -> None:
    """Check that an endpoint has a path and judges any JSON object without raising."""
    assert endpoint.path.startswith("/"), f"the path {endpoint.path!r} must begin with a slash"
    for body in _BODIES:
        for batch in (True, False):
            problem = endpoint.check(body, batch=batch, options={})
            assert problem is None or isinstance(problem, Problem), (
                f"{endpoint.path}: check must return a Problem or None"
            )
            assert problem is None or problem.message, f"{endpoint.path}: a problem without a message"


def check_description(plugins: Plugins, name: str, context: Context) -> None:
    """Check that a plugin which describes its routes describes all of them, and no others, in a fragment that fits. One that
    is marked `x-internal` there is described for this, though the document leaves it out."""
    fragment = _of(plugins, name, "fibatchd_openapi", None)
    if fragment is None:
        return
    with capture_logs() as lines:
        whole = document(plugins)
    clashes = [line["reason"] for line in lines if line.get("plugin") == name]
    assert not clashes, f"fibatchd_openapi: {clashes[0]}"
    app = create_app(context, plugins, ready=lambda: True)
    described = {operation for part in (whole, fragment) for operation, _ in operations(part)}
    mine = Quart(__name__, static_folder=None)
    for blueprint in _of(plugins, name, "fibatchd_routes", [], context):
        mine.register_blueprint(blueprint)
    for operation in served(mine.url_map):
        assert operation in described, f"fibatchd_openapi: {operation} is missing"
    for operation, _ in operations(fragment):
        assert operation in served(app.url_map), f"fibatchd_openapi: {operation} is not served"


async def check_service(service: Any) -> None:
    """Check that a service has a name, says when it works, and ends when it is cancelled."""
    assert isinstance(service.name, str), "a service needs a name"
    assert inspect.iscoroutinefunction(service.run), f"{service.name}: run must be a coroutine function"
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(START_S) as starting:
            await nursery.start(service.run)
        assert not starting.cancelled_caught, f"{service.name}: did not call task_status.started() in {START_S} s"
        nursery.cancel_scope.cancel()


def check_metric(metric: Metric) -> None:
    """Check that a metric is named as Prometheus wants it, says what it is, and can be read."""
    assert re.fullmatch(r"fibatchd(_[a-z0-9]+){2,}", metric.name), (
        f"{metric.name}: begin with fibatchd_ and your plugin"
    )
    assert metric.name.endswith("_total") == (metric.kind == "counter"), f"{metric.name}: counters end in _total"
    assert metric.help, f"{metric.name}: no help"
    for labels in metric.read():
        assert len(labels) == len(metric.labels), f"{metric.name}: {labels} are not the values of {metric.labels}"
    metric.family()


def _check_settings(schema: Mapping[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema.get("additionalProperties") is False, "fibatchd_settings: unknown keys must be refused"
    for key, described in schema.get("properties", {}).items():
        assert described.get("description"), f"fibatchd_settings: {key} has no description"


def _check_migrations(migrations: list[Migration], name: str) -> None:
    assert [m.version for m in migrations] == list(range(1, len(migrations) + 1)), "migrations are numbered from 1"
    for migration in migrations:
        assert migration.owner == name, f"migration {migration.version}: its owner must be {name!r}"
        assert set(migration.sql) == {"sqlite", "postgresql"}, f"migration {migration.version}: needs both dialects"


def _of(plugins: Plugins, name: str, hook: str, default: Any, *context: Context) -> Any:
    """Return what this one plugin's implementation of a hook gives."""
    for implementation in getattr(plugins.hook, hook).get_hookimpls():
        if plugins.manager.get_name(implementation.plugin) == name:
            return implementation.function(*(context if implementation.argnames else ()))
    return default


def _is_installed(name: str) -> bool:
    return any(entry.name == name for entry in importlib.metadata.entry_points(group=plugin_loader.GROUP))
