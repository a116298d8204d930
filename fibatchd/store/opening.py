"""Which driver serves a storage URL: the only place, with the drivers' own modules, that names them."""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from fibatchd.errors import ConfigError, StoreInUse
from fibatchd.store.interface import Store
from fibatchd.store.migrate import Migration


@asynccontextmanager
async def open_store(
    url: str,
    data_dir: Path,
    *,
    migrations: list[Migration],
    exclusive: bool,
    min_free_bytes: int = 0,
    password_file: Path | None = None,
    pool_size: int = 10,
    statement_timeout_s: float = 30,
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[Store]:
    """Hold the store at `sqlite:FILE` (inside `data_dir` unless absolute) or `postgresql://…` open, migrated, for as long
    as the block runs.

    `exclusive` is for a daemon, which alone may serve an SQLite file; several may share a PostgreSQL. The other settings
    are those of [storage]; `clock` takes the place of the store's own. Raises StoreUnavailable, StoreInUse, StoreTooNew;
    ConfigError for any other URL.
    """
    if (path := sqlite_file(url, data_dir)) is not None:
        from fibatchd.store.sqlite import open_sqlite  # a driver is imported only where it is used

        clock = clock or time.time
        file = await open_sqlite(
            path, migrations=migrations, exclusive=exclusive, min_free_bytes=min_free_bytes, clock=clock
        )
        async with aclosing(file):
            yield file
    elif url.startswith("postgresql:"):
        from fibatchd.store.postgres import open_postgres
        from fibatchd.store.postgres_connections import Server

        server = Server(url, password_file, statement_timeout_s)
        async with open_postgres(server, migrations=migrations, pool_size=pool_size, clock=clock) as shared:
            yield shared
    else:
        scheme = url.partition(":")[0]
        raise ConfigError([f"storage.url: {scheme}: not a known store; use sqlite:FILE or postgresql://…"])


def sqlite_file(url: str, data_dir: Path) -> Path | None:
    """Return the file of a `sqlite:FILE` URL, whether it is there or not; None for another store's URL."""
    return data_dir / url.removeprefix("sqlite:") if url.startswith("sqlite:") else None


def back_up_sqlite(source: Path, target: Path) -> int:
    """Write a consistent copy of an SQLite file, served or not, to `target`, which must not exist yet; return its size in
    bytes. Raises StoreError, StoreUnavailable."""
    from fibatchd.store.sqlite_backup import back_up

    return back_up(source, target)


def is_served(file: Path) -> bool:
    """Tell whether a daemon serves this SQLite file now; one that is not there, or not to be opened, is not served."""
    from fibatchd.store.sqlite import take_lock

    try:
        os.close(take_lock(file))
    except StoreInUse:
        return True
    except OSError:
        pass
    return False
