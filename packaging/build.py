"""Builds `dist/fibatchd`: PyInstaller makes the program's folder, the folder becomes an archive, and the archive a part of
the launcher, which is the file. Run by `make binary` with the Python of an environment that holds the wheel.
"""

import gzip
import hashlib
import importlib.metadata
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "binary"
TARGET = HERE.parent / "dist" / "fibatchd"
COMPRESSION = 6
"""zlib's usual level."""


def main() -> None:
    """Build it all."""
    folder = freeze()
    archive = pack(folder)
    compile_launcher(archive)
    print(f"{TARGET}: {TARGET.stat().st_size / 1e6:.0f} MB")


def freeze() -> Path:
    """Return the folder with the program in it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    # From another folder, and without it in the path: what is built is the wheel, not the checkout.
    command = [sys.executable, "-P", "-m", "PyInstaller", "--noconfirm", "--log-level=ERROR"]
    folders = [f"--distpath={BUILD}", f"--workpath={BUILD / 'work'}"]
    subprocess.run([*command, *folders, str(HERE / "fibatchd.spec")], check=True, cwd=BUILD)
    return BUILD / "fibatchd"


def pack(folder: Path) -> Path:
    """Return an archive of the folder's content, in the plain form that the launcher reads: ustar."""
    path = BUILD / "payload.tar.gz"
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", COMPRESSION, raw, mtime=0) as packed,  # no time, no name: one content has one hash
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for member in sorted(folder.rglob("*")):
            archive.add(member, member.relative_to(folder), recursive=False, filter=_plain)
    return path


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    assert member.isfile() or member.isdir() or member.issym(), member.name
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def compile_launcher(archive: Path) -> None:
    """Write the one file. Its folder is named for version and content, so that no two builds share one."""
    content = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    name = f"fibatchd-{importlib.metadata.version('fibatchd')}-{content}"
    TARGET.parent.mkdir(exist_ok=True)
    subprocess.run(
        [
            "cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", f'-DPAYLOAD="{archive}"', f'-DNAME="{name}"',
            str(HERE / "launcher.c"), "-o", str(TARGET), "-l:libz.a",
        ],
        check=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
