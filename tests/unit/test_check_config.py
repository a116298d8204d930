"""`fibatchd check-config`: its words, its streams and its exit status."""

from functools import partial

import pytest
from click.testing import CliRunner

from fibatchd.cli.check_config import command
from fibatchd.config import load


@pytest.fixture
def run(tmp_path):
    def run(text, loader=None):
        file = tmp_path / "fibatchd.toml"
        file.write_text(text)
        return CliRunner().invoke(command, ["--config", str(file)], obj=loader)

    return run


def test_right(run):
    answer = run("""
        extensions = { files = true, console = false }
        [[models]]
        id = "echo"
        aliases = ["parrot"]
        upstreams = [{ url = "echo:" }]
    """)
    assert answer.stderr == ""
    assert answer.stdout == (
        "OK\n"
        "models      echo = parrot\n"
        "tiers       free, pro, internal, admin\n"
        "extensions  files\n"
    )  # fmt: skip
    assert answer.exit_code == 0


def test_empty(run):
    assert run("").stdout == "OK\nmodels      none\ntiers       free, pro, internal, admin\nextensions  none\n"


def test_wrong(run):
    answer = run("[log]\nlevel = 'loud'\nfromat = 'json'\n")
    assert answer.stdout == ""
    assert answer.stderr == (
        "log.fromat: unknown setting; did you mean `format`?\n"
        'log.level: "loud" is not one of "debug", "info", "warning", "error"\n'
    )
    assert answer.exit_code == 1


def test_a_loader_that_knows_plugins(run):
    assert run("[hooks]\n").exit_code == 1
    assert run("[hooks]\n", partial(load, plugin_schemas={"hooks": {}})).exit_code == 0


def test_no_file():
    answer = CliRunner().invoke(command, ["--config", "/no/such"])
    assert (answer.exit_code, answer.stderr) == (1, "/no/such cannot be read: No such file or directory\n")


def test_wrong_usage():
    assert CliRunner().invoke(command, []).exit_code == 2
