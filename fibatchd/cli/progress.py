"""A progress bar on a terminal; elsewhere a line for every tenth, which a log can keep. On stderr: stdout is for results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Show = Callable[[int, str], None]
"""(how many are done, a note) -> nothing."""


@contextmanager
def progress(title: str, total: int) -> Iterator[Show]:
    """Give a function that shows how far it is."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Tenths(title, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


class _Tenths:
    """Prints a line whenever another tenth is reached."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._reached = 0

    def __call__(self, done: int, note: str) -> None:
        reached = done * 10 // max(self._total, 1)
        if reached > self._reached:
            self._reached = reached
            click.echo(f"{self._title}: {done} of {self._total}{f' ({note})' if note else ''}", err=True)
