"""`fibatchd settings`: the example of all settings, for who has the program alone."""

from importlib.resources import files

import click


@click.command()
def command() -> None:
    """Print every setting, with its default."""
    click.echo(files("fibatchd_config").joinpath("fibatchd.example.toml").read_text("utf-8"), nl=False)
