"""`fibatchd openapi`: the HTTP API's description, without a server."""

import json
from pathlib import Path
from typing import Any

import click
import yaml

from fibatchd.cli.opening import load_plugins
from fibatchd.cli.options import config_option
from fibatchd.web.openapi import document

WIDTH = 120


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # the library has no types
    """Writes everything out, and long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as the server answers it.")
@config_option
def command(as_json: bool, config_path: Path | None) -> None:
    """Print the HTTP API's description (OpenAPI 3.1).

    The plugins of the configuration are in it.
    """
    described = document(load_plugins(config_path))
    click.echo(json.dumps(described, ensure_ascii=False, indent=2) if as_json else as_yaml(described), nl=as_json)


def as_yaml(described: dict[str, Any]) -> str:
    """Return the document as a file."""
    style = {"sort_keys": False, "allow_unicode": True, "width": WIDTH, "default_flow_style": None}
    text: str = yaml.dump(described, Dumper=_Dumper, **style)
    return text
