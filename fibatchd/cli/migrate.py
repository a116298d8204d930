"""`fibatchd migrate`: brings a database up to date before a daemon does, as an upgrade of several daemons wants it."""

from pathlib import Path

import click

from fibatchd.cli.opening import Opened, load_plugins, run
from fibatchd.cli.options import config_option
from fibatchd.store.interface import Query, Script


@click.command()
@config_option
def command(config_path: Path | None) -> None:
    """Bring the database's schema up to date.

    Prints the version of each part. A daemon that starts does the same."""

    async def work(opened: Opened) -> list[tuple[str, int]]:
        return await opened.store.read(_versions)

    for owner, version in run(config_path, work, load_plugins(config_path), create=True):
        click.echo(f"{owner:<20}{version}")


def _versions() -> Script[list[tuple[str, int]]]:
    rows = yield Query("SELECT owner, MAX(version) FROM migrations GROUP BY owner ORDER BY owner")
    return [(owner, version) for owner, version in rows]
