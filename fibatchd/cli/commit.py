"""Which commit this program is made of: stamped into what is built (`setup.py`), asked of git in a checkout.

Needs the standard library alone, since a build runs it before anything is installed.
"""

import subprocess
from importlib.resources import files
from pathlib import Path

STAMP = "commit.txt"
"""The file in the package `fibatchd` that holds it."""


def commit() -> str:
    """Return the commit's full hash, `-dirty` behind it where files differed from it; `unknown` where nobody noted it."""
    stamp = files("fibatchd").joinpath(STAMP)
    if stamp.is_file():
        return stamp.read_text("ascii").strip()
    return of_checkout(Path(__file__).parents[2]) or "unknown"


def of_checkout(root: Path) -> str | None:
    """Return the commit that a git checkout's root is at, None where it is no checkout or git cannot tell."""
    if not (root / ".git").exists():  # git would look further up, and find somebody else's
        return None
    ask = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(ask, cwd=root, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
