"""How a command comes by plugins, configuration and store. It works beside a running daemon: the store is not taken
for this process alone, and what the command writes counts from the daemon's next look."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import trio

from fibatchd import plugin_loader
from fibatchd.config import Config, load, plugin_dir
from fibatchd.plugin_loader import Plugins
from fibatchd.store.interface import Script, Store
from fibatchd.store.opening import open_store

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Opened:
    """What a command works on."""

    config: Config
    plugins: Plugins
    store: Store


def load_plugins(config_path: Path | None) -> Plugins:
    """Return the installed plugins and those of the configuration's `server.plugin_dir`. Raises ConfigError."""
    return plugin_loader.load(plugin_dir(config_path))


def load_config(config_path: Path | None, plugins: Plugins, *, store_only: bool = False) -> Config:
    """Return the configuration, checked with what plugins add to it; `store_only` is `config.load`'s. Raises ConfigError."""
    return load(config_path, plugin_schemas=plugins.settings(), known_extensions=plugins.names, store_only=store_only)


@asynccontextmanager
async def opened(config_path: Path | None) -> AsyncIterator[Opened]:
    """Open the store that the configuration names, migrated. Raises ConfigError, StoreError."""
    plugins = load_plugins(config_path)
    config = load_config(config_path, plugins, store_only=True)
    storage = config.storage
    async with open_store(
        storage.url,
        config.server.data_dir,
        migrations=plugins.migrations(),
        exclusive=False,
        password_file=storage.password_file,
        pool_size=1,
        statement_timeout_s=storage.statement_timeout_s,
    ) as store:
        yield Opened(config, plugins, store)


def run(config_path: Path | None, work: Callable[[Opened], Awaitable[T]]) -> T:
    """Open the store, do the work, close it, and return what the work returned."""

    async def opened_work() -> T:
        async with opened(config_path) as everything:
            return await work(everything)

    return trio.run(opened_work)


def write(config_path: Path | None, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one script as a transaction and return its result."""
    return run(config_path, lambda opened: opened.store.write(script, *args, **kwargs))
