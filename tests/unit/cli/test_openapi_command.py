"""`fibatchd openapi`: the same document as YAML and as JSON, with the plugins that a configuration names."""

import json
from pathlib import Path

import yaml
from click.testing import CliRunner

from fibatchd.cli import main

EXAMPLES = Path(__file__).parents[2] / "example_plugin"


def printed(*words):
    answer = CliRunner().invoke(main, ["openapi", *words])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_both_forms_say_the_same():
    assert yaml.safe_load(printed()) == json.loads(printed("--json"))


def test_yaml_repeats_nothing_by_reference():
    assert "*id00" not in printed()


def test_a_plugin_of_the_configuration(tmp_path):
    (tmp_path / "fibatchd.toml").write_text(f'[server]\nplugin_dir = "{EXAMPLES}"\n')
    paths = json.loads(printed("--json", "--config", str(tmp_path / "fibatchd.toml")))["paths"]
    assert "/v1/rerank" in paths
    assert "/v1/batches" in paths
