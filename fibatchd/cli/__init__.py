"""The command line. A command's module is imported when it is called, so that none pays for what another one needs."""

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import click

from fibatchd import __version__
from fibatchd.cli.options import config_option, given_before, keep_config, take_config
from fibatchd.errors import ConfigError, FibatchdError
from fibatchd.printable import printable

COMMANDS = {
    "serve": "fibatchd.cli.serve",
    "init": "fibatchd.cli.init",
    "demo": "fibatchd.cli.demo",
    "run": "fibatchd.cli.run",
    "settings": "fibatchd.cli.settings",
    "check-config": "fibatchd.cli.check_config",
    "account": "fibatchd.cli.account",
    "key": "fibatchd.cli.key",
    "model": "fibatchd.cli.model",
    "batch": "fibatchd.cli.batch",
    "migrate": "fibatchd.cli.migrate",
    "migrate-store": "fibatchd.cli.migrate_store",
    "backup": "fibatchd.cli.backup",
    "openapi": "fibatchd.cli.openapi",
    "version": "fibatchd.cli.version",
}
"""The core's commands, in the order of `--help`; each module has a click object named `command`."""


class Commands(click.Group):
    """The core's commands by the table above, then those of plugins, and what went wrong told in one place."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names. A plugin that cannot be loaded must not take the help away, which is where one looks then."""
        try:
            return [*COMMANDS, *_of_plugins(given_before(ctx))]
        except FibatchdError as error:
            tell(error)
            return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, None where there is none."""
        if cmd_name in COMMANDS:
            found: click.Command = import_module(COMMANDS[cmd_name]).command
            return found
        return _of_plugins(given_before(ctx)).get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Of a plugin's, `--config` is read beforehand: it says where the plugin is."""
        if args[0] not in COMMANDS:
            config_path, args = take_config(args)
            if config_path is not None:
                keep_config(ctx, config_path)
            ctx.obj = _surroundings(given_before(ctx))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what fails on purpose ends with a line on stderr and status 1, never with a traceback."""
        try:
            return super().invoke(ctx)
        except (FibatchdError, ExceptionGroup) as error:
            if (told := expected(error)) is None:
                raise
            tell(told)
            ctx.exit(1)


def expected(error: Exception) -> FibatchdError | None:
    """Return the error of ours in what was raised, out of a nursery's group too; None where anything else is in it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, FibatchdError) else None


def tell(error: FibatchdError) -> None:
    """Say on stderr what went wrong, a configuration's problems one a line."""
    for line in error.problems if isinstance(error, ConfigError) else [f"fibatchd: {error}"]:
        click.echo(printable(line, lines=True), err=True)


def _surroundings(config_path: Path | None) -> object:
    from fibatchd.cli.opening import Surroundings

    return Surroundings(config_path)


def _of_plugins(config_path: Path | None) -> dict[str, click.Command]:
    from fibatchd.cli.opening import load_plugins  # plugins cost time, and the core's commands need none of their own

    contributed: Iterable[Iterable[click.Command]] = reversed(load_plugins(config_path).hook.fibatchd_commands())
    found = {str(command.name): command for commands in contributed for command in commands}
    return {name: command for name, command in found.items() if name not in COMMANDS}


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fibatchd")
@config_option
@click.pass_context
def main(ctx: click.Context, config_path: Path | None) -> None:
    """Batch inference for language models on your own machines.

    --config may stand before a command or among its own options.
    """
    keep_config(ctx, config_path)


def run() -> None:
    """Run the command line of this process."""
    main(prog_name="fibatchd" if sys.argv[0].endswith("__main__.py") else None)
