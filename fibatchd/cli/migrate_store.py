"""`fibatchd migrate-store`: moves all there is from one database to another, as from SQLite to a PostgreSQL that several
daemons can share."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import click
import trio

from fibatchd.cli.opening import load_config, load_plugins
from fibatchd.cli.options import config_option
from fibatchd.cli.progress import Show, progress
from fibatchd.errors import StoreError
from fibatchd.store import moving
from fibatchd.store.interface import Store
from fibatchd.store.moving import Sum, Table
from fibatchd.store.opening import open_store, sqlite_file


@click.command()
@click.option(
    "--from", "source", required=True, metavar="URL", help="The database to read: sqlite:FILE or postgresql://…"
)
@click.option("--to", "target", required=True, metavar="URL", help="An empty database to fill.")
@config_option
def command(source: str, target: str, config_path: Path | None) -> None:
    """Move everything from one database to another, and verify it.

    No daemon may work on either. The source keeps all it has. Afterwards set storage.url to the target. Should the move
    break off, begin anew with an empty target."""
    moved = trio.run(_move, source, target, config_path)
    click.echo(f"{'table':<24}{'rows':>12}  checksum")
    for table, total in moved.items():
        click.echo(f"{table.name:<24}{total.rows:>12}  {total.checksum:016x}")


async def _move(source_url: str, target_url: str, config_path: Path | None) -> dict[Table, Sum]:
    plugins = load_plugins(config_path)
    config = load_config(config_path, plugins, store_only=True)
    data_dir = config.server.data_dir
    if (file := sqlite_file(source_url, data_dir)) is not None and not file.is_file():
        raise StoreError(f"{source_url}: there is no file {file}; a relative one is looked for in server.data_dir")
    async with AsyncExitStack() as stack:
        source, target = [
            await stack.enter_async_context(
                open_store(
                    url,
                    data_dir,
                    migrations=plugins.migrations(),
                    exclusive=True,
                    password_file=config.storage.password_file,
                    pool_size=1,
                    statement_timeout_s=0,
                )
            )
            for url in (source_url, target_url)
        ]
        return await move(source, target)


async def move(source: Store, target: Store) -> dict[Table, Sum]:
    """Move all tables, showing progress; return what each has. Raises StoreError where something differs afterwards."""
    tables = await moving.prepare(source, target)
    rows = sum([await source.read(moving.count, table) for table in tables])
    await target.write(moving.clear_seeds, tables)
    with progress("rows", 2 * rows) as show:
        tell = _Counter(show)
        sums = {table: await moving.copy(source, target, table, tell.of(f"moving {table.name}")) for table in tables}
        for table, total in sums.items():
            if (arrived := await moving.summed(target, table, tell.of(f"verifying {table.name}"))) != total:
                raise StoreError(f"table {table.name} differs at the target: {total} were read, {arrived} arrived")
    return sums


class _Counter:
    """Adds up rows over all tables for the progress."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._done = 0

    def of(self, note: str) -> Callable[[int], None]:
        def add(rows: int) -> None:
            self._done += rows
            self._show(self._done, note)

        return add
