"""Which driver serves a storage URL: the only place, with the drivers' own modules, that names them."""

import time
from collections.abc import Callable
from pathlib import Path

from fibatchd.errors import ConfigError
from fibatchd.store.interface import Store
from fibatchd.store.migrate import Migration


async def open_store(
    url: str,
    data_dir: Path,
    *,
    migrations: list[Migration],
    exclusive: bool,
    min_free_bytes: int = 0,
    clock: Callable[[], float] = time.time,
) -> Store:
    """Open the store at `sqlite:FILE` (inside `data_dir` unless absolute) or `postgresql://…`, migrated.

    `exclusive` is for a daemon, which alone may serve an SQLite file. Raises StoreUnavailable, StoreInUse, StoreTooNew;
    ConfigError for any other URL.
    """
    if url.startswith("sqlite:"):
        from fibatchd.store.sqlite import open_sqlite  # a driver is imported only where it is used

        return await open_sqlite(
            data_dir / url.removeprefix("sqlite:"),
            migrations=migrations,
            exclusive=exclusive,
            min_free_bytes=min_free_bytes,
            clock=clock,
        )
    raise ConfigError([f"storage.url: {url.split(':')[0]}: not a known store; use sqlite:FILE or postgresql://…"])
