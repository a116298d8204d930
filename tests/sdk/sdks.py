"""Releases of the official SDKs, each installed in a folder of its own below `.cache`, once, whatever number of processes
runs tests."""

import fcntl
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CACHE = Path(__file__).parent / ".cache"


def python_with(package: str, version: str) -> str:
    """The interpreter of an environment that has this release of a Python package and nothing else of ours."""
    folder = CACHE / f"{package}-{version}"
    python = folder / "bin" / "python"

    def install() -> None:
        # Our own pip installs into it: to put one into each environment would take longer than the package.
        _run(sys.executable, "-m", "venv", "--clear", "--without-pip", folder)
        pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"]
        _run(*pip, "install", f"{package}=={version}")

    _once(folder, install)
    return str(python)


def node_modules_with(npm: str, package: str, version: str) -> Path:
    """A folder in whose `node_modules` this release of an npm package is; scripts run from copies put there."""
    folder = CACHE / f"node-{package.replace('/', '-')}-{version}"

    def install() -> None:
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        _run(npm, "install", "--no-audit", "--no-fund", "--silent", f"{package}@{version}", cwd=folder)

    _once(folder, install)
    return folder


def _once(folder: Path, install: Callable[[], None]) -> None:
    """Install into the folder unless that was done; another process that does it now is waited for."""
    done = folder / ".installed"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            install()
            done.touch()


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True)
