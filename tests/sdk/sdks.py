"""Releases of the official SDKs, each installed in a folder of its own below `.cache`, once."""

import json
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).parent / ".cache"


def python_with(package: str, version: str) -> str:
    """The interpreter of an environment that has this release of a Python package and nothing else of ours."""
    folder = CACHE / f"{package}-{version}"
    python, done = folder / "bin" / "python", folder / ".installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            f"{package}=={version}",
        ]
        subprocess.run(install, check=True)
        done.touch()
    return str(python)


def node_modules_with(npm: str, package: str, version: str) -> Path:
    """A folder in whose `node_modules` this release of an npm package is; scripts run from copies put there."""
    folder = CACHE / f"node-{package.replace('/', '-')}-{version}"
    done = folder / ".installed"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        install = [npm, "install", "--no-audit", "--no-fund", "--silent", f"{package}@{version}"]
        subprocess.run(install, cwd=folder, check=True)
        done.touch()
    return folder
