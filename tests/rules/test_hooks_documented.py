"""Every hook is described in plugins/README.md and, with few exceptions, used by a plugin of this repository; the example
there works."""

import ast
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from fibatchd import hookspecs, plugin_loader
from fibatchd.cli import main

PLUGINS = Path(__file__).parents[2] / "plugins"
README = (PLUGINS / "README.md").read_text()
HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("fibatchd_"))
# Hooks that no plugin here implements, and why they are there all the same.
UNUSED = {"fibatchd_commands"}  # for plugins of others, whose commands could come in no other way; the example has one


def used():
    for path in PLUGINS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name in HOOKS:
                yield node.name


@pytest.mark.parametrize("hook", HOOKS)
def test_described(hook):
    assert re.search(rf"^\| `{hook}\((context)?\)` \|", README, re.MULTILINE)


def test_no_other_is_described():
    assert set(re.findall(r"fibatchd_\w+", README)) == set(HOOKS)


def test_used_by_a_plugin():
    assert set(HOOKS) - set(used()) == UNUSED


@pytest.fixture
def example(tmp_path):
    (source,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "greeting.py").write_text(source)
    return tmp_path


def test_the_example_is_loaded(example):
    assert "greeting" in plugin_loader.load(example).names


def test_the_example_has_a_command(example, tmp_path):
    (tmp_path / "fibatchd.toml").write_text(f'[server]\nplugin_dir = "{example}"\n')
    answer = CliRunner().invoke(main, ["greet", "you", "--config", str(tmp_path / "fibatchd.toml")])
    assert (answer.stdout, answer.exit_code) == ("Hello, you!\n", 0)
