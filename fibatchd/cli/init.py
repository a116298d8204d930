"""`fibatchd init`: from nothing to a server that can be started: a configuration, an account, a key."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import click

from fibatchd.cli.opening import Opened, run
from fibatchd.errors import FibatchdError
from fibatchd.store import accounts

CONFIG_NAME = "fibatchd.toml"
_DATA_DIR = 'data_dir = "fibatchd-data"'


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".", metavar="[DIR]")
def command(folder: Path) -> None:
    """Write a first configuration, and make an account.

    The configuration is DIR/fibatchd.toml, its data stands beside it, and the account is an administrator's."""
    config_path = write_config(folder)
    with _undone(config_path):
        secret = run(config_path, _create_admin, create=True)
    click.echo(f"{config_path} is written, and an account named admin is made. Its key, shown this once:\n")
    click.echo(f"  {secret}\n")
    click.echo("What remains:\n")
    click.echo(f"  ${{EDITOR:-vi}} {config_path}    # name your models")
    click.echo(f"  {_program()} serve --config {config_path}")
    click.echo(f"  curl http://127.0.0.1:8787/v1/models -H 'Authorization: Bearer {secret}'")


def _program() -> str:
    """Return how this program is called: by its name where that is found, else by where it is."""
    return "fibatchd" if shutil.which("fibatchd") else str(Path(sys.executable).with_name("fibatchd"))


def write_config(folder: Path) -> Path:
    """Write a first configuration whose data is beside it, and return its path. Raises FibatchdError where there is one
    already, or the folder cannot be written."""
    folder = folder.resolve()
    text = files("fibatchd_config").joinpath("starter.toml").read_text("utf-8")
    assert _DATA_DIR in text
    # A JSON string is a TOML string too; the daemon may be started from any folder.
    text = text.replace(_DATA_DIR, f"data_dir = {json.dumps(str(folder / 'data'), ensure_ascii=False)}")
    path = folder / CONFIG_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8", opener=_private) as file, _undone(path):
            file.write(text)
            file.flush()
    except FileExistsError:
        raise FibatchdError(f"{path} exists already, and is left as it is") from None
    except (OSError, ValueError) as error:  # ValueError: a name that is not UTF-8
        raise FibatchdError(f"{path} cannot be written: {getattr(error, 'strerror', error)}") from None
    return path


@contextmanager
def _undone(path: Path) -> Iterator[None]:
    """Remove a file again where what it is for fails: with it there, the next try would be refused."""
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner reads: upstream keys may come to stand in it."""
    return os.open(path, flags, 0o600)


async def _create_admin(opened: Opened) -> str:
    account = await opened.store.write(accounts.create_account, "admin", "admin")
    made = await opened.store.write(accounts.create_key, account.id)
    assert made is not None  # the account was just made
    return made[1]
