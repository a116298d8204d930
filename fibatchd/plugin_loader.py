"""Finds plugins and holds them: installed ones by the entry-point group `fibatchd`, single files in `server.plugin_dir`.

Bundled plugins come the same way as anyone's. A plugin is a module or object with functions marked `hookimpl`; its name,
by which `[extensions]` switches it, is the entry point's, or the file's without `.py`.
"""

import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from fibatchd import hookspecs
from fibatchd.config import CHAT_COMPLETIONS
from fibatchd.errors import ConfigError
from fibatchd.inference.endpoint import Endpoint
from fibatchd.store import migrate

GROUP = "fibatchd"


class Plugins:
    """All plugins of this process."""

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self.manager = manager
        self.hook = manager.hook

    @property
    def names(self) -> frozenset[str]:
        """Return the names that `[extensions]` may switch."""
        return frozenset(name for name, _ in self.manager.list_name_plugin())

    def settings(self) -> dict[str, Mapping[str, Any]]:
        """Return the JSON Schemas of all tables that plugins contribute, by table."""
        tables: dict[str, Mapping[str, Any]] = {}
        for contributed in reversed(self.hook.fibatchd_settings()):
            for name, schema in contributed.items():
                if name in tables:
                    raise ConfigError([f"plugins: two of them contribute the table [{name}]"])
                tables[name] = schema
        return tables

    def endpoints(self, context: Any = None) -> Iterable[tuple[str, Iterable[Endpoint]]]:
        """Give each plugin's endpoints with the plugin's name, by which its switch is found; without a context, where there
        is no daemon, those of plugins that ask for none."""
        for implementation in self.hook.fibatchd_endpoints.get_hookimpls():
            if context is None and implementation.argnames:
                continue
            name = self.manager.get_name(implementation.plugin)
            found: Any = implementation.function(*([context] if implementation.argnames else []))
            yield str(name), found

    def endpoint_paths(self) -> frozenset[str] | None:
        """Return the paths that models may list, the core's included; None where only a daemon can tell, since a plugin asks
        for its context."""
        if any(implementation.argnames for implementation in self.hook.fibatchd_endpoints.get_hookimpls()):
            return None
        return frozenset({CHAT_COMPLETIONS, *(endpoint.path for _, found in self.endpoints() for endpoint in found)})

    def migrations(self) -> list[migrate.Migration]:
        """Return the core's migrations and then those of the plugins."""
        return [*migrate.core(), *(m for found in reversed(self.hook.fibatchd_migrations()) for m in found)]


def load(plugin_dir: Path | None = None, *, extra: Mapping[str, object] | None = None) -> Plugins:
    """Load all plugins. `extra` adds some by name, for tests.

    Raises ConfigError, naming the plugin, where one cannot be imported or implements a hook wrongly.
    """
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    problems: list[str] = []
    for name, plugin in [*_installed(problems), *_from_folder(plugin_dir, problems), *(extra or {}).items()]:
        try:
            manager.register(plugin, name)
        except (ValueError, pluggy.PluginValidationError) as error:
            problems.append(f"plugin {name}: {error}")
            continue
        problems += [f"plugin {name}: {problem}" for problem in _problems(manager, plugin)]
    if not problems:
        try:
            manager.check_pending()
        except pluggy.PluginValidationError as error:
            problems.append(f"plugin {manager.get_name(error.plugin)}: {error}")
    if problems:
        raise ConfigError(problems)
    return Plugins(manager)


def _problems(manager: pluggy.PluginManager, plugin: object) -> Iterable[str]:
    for caller in manager.get_hookcallers(plugin) or ():
        for implementation in caller.get_hookimpls():
            if implementation.plugin is plugin and inspect.iscoroutinefunction(implementation.function):
                yield f"{caller.name} must be a plain function: what is asynchronous lives in what it returns"
            if implementation.plugin is plugin and (implementation.hookwrapper or implementation.wrapper):
                yield f"{caller.name} must not be a wrapper"


def _installed(problems: list[str]) -> Iterable[tuple[str, object]]:
    found = {}
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            found[entry.name] = entry.load()
        except Exception as error:
            problems.append(f"plugin {entry.name}: cannot be imported: {type(error).__name__}: {error}")
    return sorted(found.items())


def _from_folder(folder: Path | None, problems: list[str]) -> Iterable[tuple[str, ModuleType]]:
    if folder is None:
        return
    if not folder.is_dir():
        problems.append(f"server.plugin_dir: {folder} is not a folder")
        return
    for file in sorted(folder.glob("*.py")):
        name = f"fibatchd_plugin_{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None  # a .py file always has a spec and a loader
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            problems.append(f"plugin {file}: cannot be imported: {type(error).__name__}: {error}")
        else:
            yield file.stem, module
