"""Where everything is required, a skipped test has failed; elsewhere it is skipped, and says for want of what."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TEST = "def test_it(needs):\n    needs('no-such-program')\n"


@pytest.mark.parametrize(("required", "status", "word"), [("", 0, "1 skipped"), ("1", 1, "1 failed")])
def test_a_missing_program(tmp_path, required, status, word):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_it.py").write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "FIBATCHD_REQUIRE_ALL": required},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert word in done.stdout
    assert "no-such-program is not installed" in done.stdout
    assert done.returncode == status
