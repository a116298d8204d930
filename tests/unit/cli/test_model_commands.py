"""`fibatchd model`: what is listed, drained and put back, and what is refused."""

import json

import pytest
from click.testing import CliRunner

from fibatchd.cli import main


@pytest.fixture
def call(tmp_path):
    """Run a command on a store of the test's own."""
    config = tmp_path / "fibatchd.toml"
    config.write_text(
        f"[server]\ndata_dir = {json.dumps(str(tmp_path / 'data'))}\n"
        "[[models]]\nid = 'echo'\naliases = ['parrot']\nupstreams = [{ url = 'echo:' }]\n"
        "[[models]]\nid = 'off'\ndrain = true\nupstreams = [{ url = 'echo:' }]\n"
    )

    def call(*words):
        return CliRunner().invoke(main, [*words, "--config", str(config)], catch_exceptions=False)

    assert call("migrate").exit_code == 0
    return call


def drained(call):
    return {row["id"]: row["drained_by"] for row in json.loads(call("model", "list", "--json").stdout)}


def test_drained_and_put_back(call):
    assert drained(call) == {"echo": None, "off": "configuration"}
    for _ in range(2):
        answer = call("model", "drain", "echo")
        assert (answer.output, answer.exit_code) == ("", 0)
    assert drained(call) == {"echo": "operator", "off": "configuration"}
    assert call("model", "undrain", "echo").exit_code == 0
    assert drained(call) == {"echo": None, "off": "configuration"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drain", "nothing"), "the configuration has no model 'nothing'; name it by its id"),
        (("drain", "parrot"), "the configuration has no model 'parrot'; name it by its id"),
        (("undrain", "echo"), "echo is not drained"),
        (("undrain", "off"), "the configuration drains off; it is put back there"),
    ],
)
def test_what_is_refused(call, words, said):
    answer = call("model", *words)
    assert (answer.stderr, answer.exit_code) == (f"fibatchd: {said}\n", 1)
