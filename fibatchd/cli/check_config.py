"""`fibatchd check-config`: says whether a configuration file is right, with every problem at once where it is not."""

from collections.abc import Iterable
from pathlib import Path

import click

from fibatchd.cli.opening import load_config, load_plugins
from fibatchd.cli.options import config_option
from fibatchd.config import Config


@click.command("check-config")
@config_option
@click.pass_context
def command(ctx: click.Context, config_path: Path | None) -> None:
    """Check a configuration file as the daemon would."""
    if config_path is None:
        raise click.MissingParameter(ctx=ctx, param_type="option", param_hint="--config")
    plugins = load_plugins(config_path)
    config = load_config(config_path, plugins, known_endpoints=plugins.endpoint_paths())
    click.echo("OK")
    for title, names in summary(config):
        click.echo(f"{title:<12}{', '.join(names) or 'none'}")


def summary(config: Config) -> Iterable[tuple[str, list[str]]]:
    """What a reader wants to see confirmed, as titled lists."""
    yield "models", [" = ".join((model.id, *model.aliases)) for model in config.models]
    yield "tiers", list(config.tiers)
    yield "extensions", [name for name, is_on in config.extensions.items() if is_on]
