"""`fibatchd serve`: the daemon, in the foreground."""

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
    from fibatchd.daemon import run  # the front end and all drivers: what no other command should wait for

    ctx.exit(run(config_path))
