"""`fibatchd check-config`: says whether a configuration file is right, with every problem at once where it is not."""

from collections.abc import Callable, Iterable
from pathlib import Path

import click

from fibatchd.config import Config, load
from fibatchd.errors import ConfigError

Loader = Callable[[Path], Config]


@click.command("check-config")
@click.option("--config", "path", required=True, type=click.Path(path_type=Path), help="The file to check.")
@click.pass_obj
def command(loader: Loader | None, path: Path) -> None:
    """Check a configuration file as the daemon would when it starts."""
    # The context's object loads a file with the plugins' tables and names; without it only the core's are known.
    try:
        config = (loader or load)(path)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        raise SystemExit(1) from None
    click.echo("OK")
    for title, names in summary(config):
        click.echo(f"{title:<12}{', '.join(names) or 'none'}")


def summary(config: Config) -> Iterable[tuple[str, list[str]]]:
    """What a reader wants to see confirmed, as titled lists."""
    yield "models", [" = ".join((model.id, *model.aliases)) for model in config.models]
    yield "tiers", list(config.tiers)
    yield "extensions", [name for name, is_on in config.extensions.items() if is_on]
