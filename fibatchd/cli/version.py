"""`fibatchd version`: what is installed, what of, and under which licences."""

import json
import os
import platform
import re
import ssl
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files

import click

from fibatchd import __version__
from fibatchd.cli.commit import commit

NAME = "fibatchd"
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


@click.command()
@click.option(
    "-v", "--verbose", is_flag=True, help="Also the commit, Python, SQLite, and every library in use with its licence."
)
def command(verbose: bool) -> None:
    """Print the version."""
    click.echo(f"{NAME} {__version__}")
    if verbose:
        click.echo(f"commit {commit()}")
        click.echo(f"Python {platform.python_version()}, SQLite {_sqlite_version()}, {ssl.OPENSSL_VERSION}")
        click.echo(f"{platform.system()} {platform.release()} on {platform.machine()}, {os.cpu_count()} processors")
        click.echo()
        for name, version, licence in _inside():
            click.echo(f"{name:<28} {version:<20} {licence}")


def _sqlite_version() -> str:
    import apsw  # the driver carries the library, and only this command asks it

    return str(apsw.sqlite_lib_version())


def _inside() -> Iterator[tuple[str, str, str]]:
    """Give name, version and licence of all that this program is made of."""
    for library in libraries():
        yield library.metadata["Name"], library.version, licence_of(library)
    yield "Python", platform.python_version(), "PSF-2.0"
    # A binary brings shared libraries of the machine that it was built on, and this list of them.
    shared = files(NAME).joinpath("libraries.json")
    if shared.is_file():
        for name, licence in json.loads(shared.read_text("utf-8")).items():
            yield name, "", licence


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


def licence_of(library: Distribution) -> str:
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
