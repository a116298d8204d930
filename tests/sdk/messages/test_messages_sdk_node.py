"""The official Node SDK, old and new, against a real daemon on both stores."""

import shutil
import subprocess
from pathlib import Path

import pytest
from sdks import node_modules_with

FLOW = Path(__file__).with_name("flow.mjs")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.60.0", "1.14.0"])
def test_the_node_sdk(stand, needs, version):
    node = needs("node")
    folder = node_modules_with(needs("npm"), "@anthropic-ai/sdk", version)
    script = shutil.copy(FLOW, folder / "flow.mjs")
    done = subprocess.run(
        [node, str(script), stand.daemon.base, stand.key], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr + stand.daemon.output()[-3000:]
