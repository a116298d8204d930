"""`fibatchd key`: the secrets by which accounts are known."""

from pathlib import Path

import click

from fibatchd.administration import pinned, shown_key
from fibatchd.cli.opening import Opened, run, write
from fibatchd.cli.options import config_option, seconds, text
from fibatchd.cli.tables import show
from fibatchd.domain.accounts import Key
from fibatchd.errors import FibatchdError
from fibatchd.store import accounts
from fibatchd.store.interface import Script


@click.group()
def command() -> None:
    """Create, list and revoke API keys.

    A change counts from the key's next request, while the daemon runs or not."""


@command.command()
@click.argument("account_id", type=text)
@click.option("--expires-in", type=seconds, metavar="SECONDS", help="Valid for so long only.")
@click.option("--model", "models", type=text, multiple=True, metavar="ID", help="Valid for these models only.")
@config_option
def create(account_id: str, expires_in: float | None, models: tuple[str, ...], config_path: Path | None) -> None:
    """Create a key and print it. It is shown this once: only its hash is kept."""

    async def work(opened: Opened) -> tuple[Key, str] | None:
        limited, unknown = pinned(opened.config, models)
        for name in unknown:
            click.echo(f"fibatchd: warning: the configuration has no model {name!r}", err=True)
        return await opened.store.write(accounts.create_key, account_id, expires_in=expires_in, models=limited or None)

    made = run(config_path, work)
    if made is None:
        raise FibatchdError(f"there is no account {account_id}")
    click.echo(made[1])


@command.command("list")
@click.argument("account_id", type=text)
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@config_option
def list_keys(account_id: str, as_json: bool, config_path: Path | None) -> None:
    """List an account's keys, oldest first, revoked and expired ones included."""
    keys = run(config_path, lambda opened: opened.store.read(_keys_of, account_id))
    if keys is None:
        raise FibatchdError(f"there is no account {account_id}")
    show([shown_key(key) for key in keys], as_json=as_json, empty="no keys")


@command.command()
@click.argument("key_id", type=text)
@config_option
def revoke(key_id: str, config_path: Path | None) -> None:
    """Revoke a key, named by its id. Batches that were created with it fail."""
    if not write(config_path, accounts.revoke_key, key_id):
        raise FibatchdError(f"there is no key {key_id}; name it by its id, which starts with key_")


def _keys_of(account_id: str) -> Script[list[Key] | None]:
    """Return the account's keys, None where there is no such account."""
    if (yield from accounts.get_account(account_id)) is None:
        return None
    return (yield from accounts.list_keys(account_id))
