"""Stamps what is built with the commit it is made of; everything else about the package is in pyproject.toml."""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
COMMIT = runpy.run_path(str(ROOT / "fibatchd" / "cli" / "commit.py"))


class StampedBuild(build_py):
    """The usual build, and the stamp."""

    def run(self) -> None:
        """Build. An editable installation is the checkout itself, which is asked when it matters."""
        super().run()
        commit = COMMIT["of_checkout"](ROOT)
        if commit and not self.editable_mode:
            Path(self.build_lib, "fibatchd", COMMIT["STAMP"]).write_text(f"{commit}\n")


setup(cmdclass={"build_py": StampedBuild})
