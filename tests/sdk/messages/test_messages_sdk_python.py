"""The official Python SDK, old and new, against a real daemon on both stores."""

import subprocess
import sys
from pathlib import Path

import pytest
from sdks import python_with

FLOW = Path(__file__).with_name("flow.py")


def run(python, stand):
    done = subprocess.run(
        [python, str(FLOW), stand.daemon.base, stand.key], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr + stand.daemon.output()[-3000:]


def test_the_current_release(stand):
    run(sys.executable, stand)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.125.0", "1.17.0"])
def test_older_releases(stand, version):
    run(python_with("anthropic", version), stand)
