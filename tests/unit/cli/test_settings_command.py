"""`fibatchd settings` prints the example of all settings, which tests/rules hold against the program."""

from pathlib import Path

from click.testing import CliRunner

from fibatchd.cli import main

EXAMPLE = Path(__file__).parents[3] / "config" / "fibatchd.example.toml"


def test_settings_prints_the_example():
    answer = CliRunner().invoke(main, ["settings"])
    assert (answer.exit_code, answer.stdout) == (0, EXAMPLE.read_text())
