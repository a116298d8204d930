"""Stamps what is built with the commit it is made of; everything else about the package is in pyproject.toml."""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
COMMIT = runpy.run_path(str(ROOT / "fibatchd" / "cli" / "commit.py"))
STAMP = Path("fibatchd", COMMIT["STAMP"])


def stamp(tree: Path) -> None:
    """Note the commit in what is being built: the checkout's, or what a source archive that was made of one has noted."""
    noted = (ROOT / STAMP).read_text().strip() if (ROOT / STAMP).exists() else None
    if commit := COMMIT["of_checkout"](ROOT) or noted:
        (tree / STAMP).write_text(f"{commit}\n")


class StampedBuild(build_py):
    """The usual build, and the stamp."""

    def run(self) -> None:
        """Build. An editable installation is the checkout itself, which is asked when it matters."""
        super().run()
        if not self.editable_mode:
            stamp(Path(self.build_lib))


class StampedArchive(sdist):
    """The usual source archive, and the stamp."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Write the archive's content."""
        super().make_release_tree(base_dir, files)
        stamp(Path(base_dir))


setup(cmdclass={"build_py": StampedBuild, "sdist": StampedArchive})
