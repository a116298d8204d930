"""Every command, and every option of `fibatchd run`, has a help text and stands in docs/cli.md."""

import re
from pathlib import Path

import click
import pytest

from fibatchd.cli import COMMANDS, main

DOCS = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def commands(group, path):
    for name in COMMANDS if group is main else group.commands:
        command = group.get_command(click.Context(group), name)
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


ALL = dict(commands(main, "fibatchd"))
LEAVES = [name for name, command in ALL.items() if not isinstance(command, click.Group)]


def test_all_are_found():
    assert {"fibatchd serve", "fibatchd key create", "fibatchd batch download"} <= set(LEAVES)


@pytest.mark.parametrize("name", ALL)
def test_help(name):
    assert ALL[name].help
    for option in ALL[name].params:
        if isinstance(option, click.Option):
            assert option.help, option.name


@pytest.mark.parametrize("name", LEAVES)
def test_documented(name):
    assert re.search(rf"\b{name}\b", DOCS)


def test_no_other_is_documented():
    first_column = re.findall(r"^\| `(fibatchd [a-z][a-z -]*[a-z])", DOCS, re.MULTILINE)
    assert {name.partition(" --")[0] for name in first_column} <= set(LEAVES)


def test_options_of_run():
    options = {name for option in ALL["fibatchd run"].params for name in option.opts if name.startswith("--")}
    assert options == set(re.findall(r"^\| `(--[a-z-]+)", DOCS, re.MULTILINE))
