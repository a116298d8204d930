"""`fibatchd version`: what is installed, and under which licences."""

import platform
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

import click

from fibatchd import __version__

NAME = "fibatchd"
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


@click.command()
@click.option("-v", "--verbose", is_flag=True, help="Also Python and every library in use, with its licence.")
def command(verbose: bool) -> None:
    """Print the version."""
    click.echo(f"{NAME} {__version__}")
    if verbose:
        click.echo(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
        for library in libraries():
            click.echo(f"{library.metadata['Name']:<28} {library.version:<16} {licence(library)}")


def libraries() -> list[Distribution]:
    """Return what this program is installed with, itself first: its requirements and theirs, by name."""
    found: dict[str, Distribution] = {}
    _gather(NAME, found)
    first, *others = found.values()
    return [first, *sorted(others, key=lambda library: library.metadata["Name"].lower())]


def _gather(name: str, found: dict[str, Distribution]) -> None:
    key = re.sub(r"[-_.]+", "-", name).lower()  # how the packaging standard compares names
    if key in found:
        return
    try:
        found[key] = distribution(name)
    except PackageNotFoundError:
        return  # needed on another system or Python only
    for required in _required(found[key]):
        _gather(required, found)


def _required(library: Distribution) -> Iterator[str]:
    for requirement in library.requires or ():
        match = _REQUIREMENT.match(requirement)
        if match and "extra ==" not in requirement:
            yield match[0]


def licence(library: Distribution) -> str:
    """Return a short name of a library's licence: the SPDX expression, else the classifiers, else the old field's first
    line."""
    metadata = library.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    marked = [
        line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier", ()) if line.startswith("License ::")
    ]
    stated = metadata["License"].partition("\n")[0] if "License" in metadata else ""
    return ", ".join(marked) or stated or "not stated"
