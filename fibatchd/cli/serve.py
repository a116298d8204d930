"""`fibatchd serve`: the daemon, in the foreground."""

import gc
from collections.abc import Callable
from pathlib import Path

import click

from fibatchd.cli.options import config_option


@click.command()
@config_option
@click.pass_context
def command(ctx: click.Context, config_path: Path | None) -> None:
    """Run the server in the foreground.

    SIGHUP reads the configuration again. SIGTERM or SIGINT lets running requests finish, a second one gives them back
    at once.
    """
    ctx.exit(run_daemon(config_path))


def run_daemon(config_path: Path | None, *, on_ready: Callable[[str], None] | None = None) -> int:
    """Run the daemon in this process; see `daemon.run`. What it imports, the front end and all drivers, no other command
    should wait for."""
    gc.disable()  # what modules make stays: to look through it while they load would take an eighth of the time
    from fibatchd.daemon import run

    gc.enable()
    return run(config_path, on_ready=on_ready)
