"""All that the program needs is in the wheel: every package is listed, and every file beside Python's is package data."""

import fnmatch
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS = {folder: name for name, folder in SETUPTOOLS["package-dir"].items()}


def packages():
    for folder, name in FOLDERS.items():
        for path in (ROOT / folder).rglob("__init__.py"):
            yield ".".join([name, *path.parent.relative_to(ROOT / folder).parts])


def test_every_package_is_listed():
    assert sorted(SETUPTOOLS["packages"]) == sorted(packages())


def tracked_files():
    listing = subprocess.run(
        ["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    return [path for path in listing if not path.endswith((".py", ".md"))]


def test_every_other_file_is_package_data():
    files = tracked_files()
    if not files:
        pytest.skip("not a git checkout")
    patterns = SETUPTOOLS["package-data"]["*"]
    assert [path for path in files if not any(fnmatch.fnmatch(Path(path).name, pattern) for pattern in patterns)] == []
    # Data belongs to the package it lies in.
    assert [path for path in files if not (ROOT / path).with_name("__init__.py").exists()] == []
