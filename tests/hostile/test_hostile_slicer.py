"""The raw JSON slicer under coverage-guided fuzzing. Every run of the tests has hypothesis instead: unit/test_rawjson.py."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "fuzz_rawjson.py"


@pytest.mark.torture
def test_it_agrees_with_the_standard_library(tmp_path):
    pytest.importorskip("atheris", reason="atheris has no wheel for every Python: pip install '.[fuzz]'")
    seeds = {
        "1": b'{"a":1,"b":[{"c":"\\ud800\\n"}],"a":null}',
        "2": b'[1,{"a":[]},"x"]',
        "3": ' {"é" : "\U0001f600", "\\u0061":-0.1e+5 } '.encode(),
    }
    for name, seed in seeds.items():
        (tmp_path / name).write_bytes(seed)
    command = [sys.executable, str(SCRIPT), str(tmp_path), "-runs=300000", "-max_len=2048", "-timeout=20"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done 300000 runs" in done.stderr
