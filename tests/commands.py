"""The command line as real processes."""

import contextlib
import os
import subprocess
import sys


def fibatchd(*words, env=None, cwd=None, timeout=60):
    return subprocess.run(
        [sys.executable, "-m", "fibatchd", *map(str, words)],
        capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})}, cwd=cwd, check=False,
    )  # fmt: skip


@contextlib.contextmanager
def started(*words, cwd=None):
    process = subprocess.Popen(
        [sys.executable, "-m", "fibatchd", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
