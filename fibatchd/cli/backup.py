"""`fibatchd backup`: a copy of the SQLite database, beside a running daemon or without one. PostgreSQL has tools of its
own for that, which this names."""

from pathlib import Path

import click

from fibatchd.cli.opening import load_config_for_store
from fibatchd.cli.options import config_option
from fibatchd.errors import StoreError
from fibatchd.store.opening import back_up_sqlite, sqlite_file


@click.command()
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@config_option
def command(target: Path, config_path: Path | None) -> None:
    """Write a copy of the SQLite database to FILE.

    The daemon may run meanwhile. FILE must not exist yet."""
    config = load_config_for_store(config_path)
    source = sqlite_file(config.storage.url, config.server.data_dir)
    if source is None:
        raise StoreError(
            "storage.url names a PostgreSQL, which pg_dump backs up: pg_dump --format=custom --file=FILE URL"
        )
    click.echo(f"{target}: {back_up_sqlite(source, target)} bytes")
