"""How a command comes by configuration and store. It works beside a running daemon: the store is not taken for this
process alone, and what the command writes counts from the daemon's next look.

Plugins bring the front end's libraries with them, so they are loaded only where they matter: the core's tables can be
opened without them, and a key can be revoked while a plugin is broken.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import trio

from fibatchd import plugin_loader
from fibatchd.config import Config, load, plugin_dir
from fibatchd.errors import ConfigError, StoreError
from fibatchd.plugin_loader import Plugins
from fibatchd.store import migrate
from fibatchd.store.interface import Script, Store
from fibatchd.store.opening import open_store, sqlite_file

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Opened:
    """What a command works on."""

    config: Config
    store: Store


def load_plugins(config_path: Path | None) -> Plugins:
    """Return the installed plugins and those of the configuration's `server.plugin_dir`. Raises ConfigError."""
    return plugin_loader.load(plugin_dir(config_path))


def load_config(
    config_path: Path | None,
    plugins: Plugins,
    *,
    known_endpoints: Collection[str] | None = None,
    store_only: bool = False,
) -> Config:
    """Return the configuration, checked with what plugins add to it; the options are `config.load`'s. Raises ConfigError."""
    return load(
        config_path,
        plugin_schemas=plugins.settings(),
        known_extensions=plugins.names,
        known_endpoints=known_endpoints,
        store_only=store_only,
    )


def load_config_for_store(config_path: Path | None) -> Config:
    """Return the configuration, as far as the core's tables in the store need it. Raises ConfigError."""
    try:
        return load(config_path, store_only=True)
    except ConfigError:
        # What is wrong without the plugins may be right with them; what is not is told then.
        return load_config(config_path, load_plugins(config_path), store_only=True)


@asynccontextmanager
async def opened(
    config_path: Path | None, plugins: Plugins | None = None, *, create: bool = False
) -> AsyncIterator[Opened]:
    """Open the store that the configuration names, migrated: the core's tables, or those of the plugins too.

    Unless it is to `create` one, it wants a database file to be there: a command that was not told the right
    configuration must not leave an empty database where it was called. Raises ConfigError, StoreError.
    """
    if plugins is None:
        config, migrations = load_config_for_store(config_path), migrate.core()
    else:
        config, migrations = load_config(config_path, plugins, store_only=True), plugins.migrations()
    storage = config.storage
    if not create and (file := sqlite_file(storage.url, config.server.data_dir)) is not None:
        _require(file, config_path)
    async with open_store(
        storage.url,
        config.server.data_dir,
        migrations=migrations,
        exclusive=False,
        password_file=storage.password_file,
        pool_size=1,
        statement_timeout_s=storage.statement_timeout_s,
    ) as store:
        yield Opened(config, store)


def _require(file: Path, config_path: Path | None) -> None:
    """Raise StoreError where there is no such file; what else may be wrong with it, opening it tells."""
    try:
        file.stat()
    except FileNotFoundError:
        hint = (
            "is --config missing?" if config_path is None else "the daemon's first start makes it, or `account create`"
        )
        raise StoreError(f"there is no database {file.resolve()}; {hint}") from None
    except OSError:
        pass


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a plugin's command is given as its click object."""

    config_path: Path | None

    def run(self, work: Callable[[Opened], Awaitable[T]]) -> T:
        """Open the store with the tables of all plugins, do the work, close it, and return what the work returned."""
        return run(self.config_path, work, load_plugins(self.config_path))


def run(
    config_path: Path | None,
    work: Callable[[Opened], Awaitable[T]],
    plugins: Plugins | None = None,
    *,
    create: bool = False,
) -> T:
    """Open the store as `opened` does, do the work, close it, and return what the work returned."""

    async def opened_work() -> T:
        async with opened(config_path, plugins, create=create) as everything:
            return await work(everything)

    return trio.run(opened_work)


def write(config_path: Path | None, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one script as a transaction and return its result."""
    return run(config_path, lambda opened: opened.store.write(script, *args, **kwargs))
