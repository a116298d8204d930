"""`fibatchd account`: who may use the server, on what tier, up to what quota."""

from pathlib import Path
from typing import Any

import click

from fibatchd.administration import shown_account, tier_problem
from fibatchd.cli.opening import Opened, run, write
from fibatchd.cli.options import config_option, quota, text
from fibatchd.cli.tables import show
from fibatchd.config import Config
from fibatchd.domain.accounts import ACTIVE, SUSPENDED, Account
from fibatchd.errors import FibatchdError
from fibatchd.store import accounts

account_id = click.argument("account_id", type=text)


@click.group()
def command() -> None:
    """Create, list and change accounts.

    A change counts from the account's next request, while the daemon runs or not."""


@command.command()
@click.argument("name", type=text)
@click.option("--tier", required=True, help="One of the configuration's tiers.")
@config_option
def create(name: str, tier: str, config_path: Path | None) -> None:
    """Create an account and print its id."""

    async def work(opened: Opened) -> Account:
        check_tier(opened.config, tier)
        return await opened.store.write(accounts.create_account, name, tier)

    click.echo(run(config_path, work, create=True).id)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@config_option
def list_accounts(as_json: bool, config_path: Path | None) -> None:
    """List all accounts, oldest first, deleted ones included."""

    async def work(opened: Opened) -> list[dict[str, Any]]:
        return [shown_account(account, opened.config) for account in await opened.store.read(accounts.list_accounts)]

    show(run(config_path, work), as_json=as_json, empty="no accounts")


@command.command()
@account_id
@config_option
def suspend(account_id: str, config_path: Path | None) -> None:
    """Suspend an account: its keys are refused and its batches fail."""
    _check_found(write(config_path, accounts.set_account_status, account_id, SUSPENDED), account_id)


@command.command()
@account_id
@config_option
def resume(account_id: str, config_path: Path | None) -> None:
    """Let a suspended account in again."""
    _check_found(write(config_path, accounts.set_account_status, account_id, ACTIVE), account_id)


@command.command()
@account_id
@config_option
def delete(account_id: str, config_path: Path | None) -> None:
    """Delete an account with its keys, its batches and its results."""
    _check_found(write(config_path, accounts.delete_account, account_id), account_id)


@command.command("set-tier")
@account_id
@click.argument("tier")
@config_option
def set_tier(account_id: str, tier: str, config_path: Path | None) -> None:
    """Move an account to another tier."""

    async def work(opened: Opened) -> bool:
        check_tier(opened.config, tier)
        return await opened.store.write(accounts.set_account_tier, account_id, tier)

    _check_found(run(config_path, work), account_id)


@command.command("set-quota")
@account_id
@click.argument("quota", type=quota, metavar="USD|none")
@config_option
def set_quota(account_id: str, quota: int | None, config_path: Path | None) -> None:
    """Give an account a daily quota of its own in USD, or none, in place of its tier's."""
    _check_found(write(config_path, accounts.set_account_quota, account_id, quota), account_id)


def check_tier(config: Config, tier: str) -> None:
    """Raise FibatchdError where no tier has this name."""
    if (problem := tier_problem(config, tier)) is not None:
        raise FibatchdError(problem)


def _check_found(found: bool, account_id: str) -> None:
    if not found:
        raise FibatchdError(f"there is no account {account_id}")
