"""What is described is what is served: the core alone, each plugin alone, all of them, with every switch on and off."""

import importlib.metadata

import pluggy
import pytest

from fibatchd import config, hookspecs
from fibatchd.daemon import compose
from fibatchd.plugin_loader import GROUP, Plugins
from fibatchd.store.opening import open_store
from fibatchd.testing import plugin_context
from fibatchd.upstream.fleet import Fleet
from fibatchd.web.app import create_app
from fibatchd.web.openapi import document, operations, served
from fibatchd.web.openapi.document import INTERNAL, fragments

# Served, and marked in their fragments as nothing for clients; and why.
UNDESCRIBED = {
    ("GET", "/console"): "the page, for browsers",
    ("GET", "/console/{version}/{path}"): "its files",
}

ALL = sorted(entry.name for entry in importlib.metadata.entry_points(group=GROUP))


def only(names):
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    for entry in importlib.metadata.entry_points(group=GROUP):
        if entry.name in names:
            manager.register(entry.load(), entry.name)
    return Plugins(manager)


def internal(plugins):
    given = [operations(fragment) for _, fragment in fragments(plugins)]
    return {operation for found in given for operation, said in found if said.get(INTERNAL)}


@pytest.mark.parametrize("on", [False, True], ids=["off", "on"])
@pytest.mark.parametrize("names", [[], ALL, *([name] for name in ALL)], ids=lambda names: "+".join(names) or "core")
async def test_described_is_what_is_served(tmp_path, names, on):
    plugins = only(names)
    switches = "".join(f"{name} = {str(on).lower()}\n" for name in names)
    settings = config.parse(
        f"[extensions]\n{switches}", plugin_schemas=plugins.settings(), known_extensions=plugins.names
    )
    async with open_store("sqlite:x.db", tmp_path, migrations=plugins.migrations(), exclusive=True) as store:
        app = create_app(compose(settings, store, Fleet(), plugins), plugins, ready=lambda: True)
        is_served = served(app.url_map) - internal(plugins)
        described = {operation for operation, _ in operations(document(plugins))}
        assert sorted(is_served - described) == []
        assert sorted(described - is_served) == []


async def test_what_is_left_out_is_served():
    async with plugin_context(None, ALL[0]) as (plugins, context):
        assert internal(plugins) == UNDESCRIBED.keys()
        assert UNDESCRIBED.keys() <= served(create_app(context, plugins, ready=lambda: True).url_map)
