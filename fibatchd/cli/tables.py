"""How commands show rows: a table for people, an array of objects for programs."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from fibatchd.printable import printable

_UNPRINTABLE = re.compile(r"[^\n -~]")


def show(rows: Sequence[Mapping[str, Any]], *, as_json: bool, empty: str) -> None:
    """Print rows of the same keys. For people, `…_at` are times, lists are joined, and None is a dash; without rows they
    are told `empty`."""
    if as_json:
        show_value(rows)
    elif rows:
        _show_table(rows)
    else:
        click.echo(empty)


def show_value(value: Any) -> None:
    """Print a value as JSON."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    # They can stand in strings only, where JSON has escapes for them.
    click.echo(_UNPRINTABLE.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text))


def _show_table(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console  # not needed, and slow to import, where a program asks
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name.removesuffix("_at"), overflow="fold", no_wrap=name.endswith("_at"))
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    # A pipe has no width to keep to: a line stays a line.
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 10_000
    console.print(table)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.endswith("_at"):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, msgspec.Raw):
        return printable(bytes(value).decode())
    return printable(", ".join(value) if isinstance(value, list | tuple) else str(value))
