"""`fibatchd check-config`: its words, its streams and its exit status."""

import json

import pytest
from click.testing import CliRunner

from fibatchd.cli import main


@pytest.fixture
def run(tmp_path):
    def run(text):
        file = tmp_path / "fibatchd.toml"
        file.write_text(text)
        return CliRunner().invoke(main, ["check-config", "--config", str(file)])

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


def test_a_table_and_a_name_of_a_plugin(run, tmp_path):
    (tmp_path / "hooks.py").write_text(
        "from fibatchd.plugin_api import hookimpl\n"
        "@hookimpl\n"
        "def fibatchd_settings():\n"
        "    return {'hooks': {'properties': {'depth': {'type': 'integer'}}}}\n"
    )
    text = "[extensions]\nhooks = true\n[hooks]\ndepth = 3\n"
    assert run(text).exit_code == 1
    answer = run(text + f"[server]\nplugin_dir = {json.dumps(str(tmp_path))}\n")
    assert answer.stdout.endswith("extensions  hooks\n")
    assert answer.exit_code == 0


def test_no_file():
    answer = CliRunner().invoke(main, ["check-config", "--config", "/no/such"])
    assert (answer.exit_code, answer.stderr) == (1, "/no/such cannot be read: No such file or directory\n")


def test_wrong_usage():
    assert CliRunner().invoke(main, ["check-config"]).exit_code == 2


def test_an_endpoint_that_nothing_serves(run):
    answer = run("""
        [[models]]
        id = "m"
        endpoints = ["/v1/chat/completions", "/v1/embedings"]
        upstreams = [{ url = "echo:" }]
    """)
    assert answer.stderr == (
        'models[0].endpoints[1]: "/v1/embedings" is not an endpoint of any plugin; did you mean `/v1/embeddings`?\n'
    )
    assert answer.exit_code == 1
