"""What of the machine it is built on goes into the binary: the standard library, shared libraries, and their licences."""

import json
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = [
    # Their shared libraries are under copyleft licences, and a server has no use for them.
    "readline", "_gdbm", "_dbm", "dbm.gnu", "dbm.ndbm", "nis", "_crypt", "crypt", "spwd",
    # Windows, a desktop, tests, and tools that need more of Python than is in here.
    "tkinter", "_tkinter", "turtle", "turtledemo", "idlelib", "test", "lib2to3", "ensurepip", "venv", "pydoc_data",
    "antigravity", "this", "curses", "_curses", "_curses_panel", "msilib", "distutils",
]  # fmt: skip

LICENCES = {
    "libpython": "PSF-2.0",
    "libssl": "Apache-2.0",
    "libcrypto": "Apache-2.0",
    "libz": "Zlib",
    "libbz2": "bzip2-1.0.6",
    "liblzma": "0BSD",
    "libffi": "MIT",
    "libuuid": "BSD-3-Clause",
    "libsqlite3": "blessing",
    "libexpat": "MIT",
    "libgcc_s": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libstdc++": "GPL-3.0-or-later WITH GCC-exception-3.1",
}
"""Shared libraries that may be inside, with their SPDX licences. None but these: whatever else a build would take from its
machine is looked at first. (The runtime library exception of GCC frees what is linked with it from the GPL.)"""

NOT_SHARED = {"PyInstaller's bootloader": "GPL-2.0-or-later WITH Bootloader-exception"}
"""Which is in the program itself; its exception frees what is started by it."""


def standard_library() -> list[str]:
    """Return the names of all modules of the standard library, submodules too, but for those left out."""
    found = {*_modules(Path(sysconfig.get_path("stdlib"))), *_modules(Path(sysconfig.get_path("platstdlib")))}
    return sorted(name for name in found if not any(f"{name}.".startswith(f"{left}.") for left in LEFT_OUT))


def _modules(root: Path) -> Iterator[str]:
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        # Not site-packages, nor config-3.11-…, which are no names; not what packages are tested with or run as.
        if all(part.isidentifier() for part in parts) and not {"__main__", "tests", "test"} & set(parts):
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    for path in (root / "lib-dynload").glob("*.so"):
        yield path.name.partition(".")[0]


def licences_of_libraries(binaries: list[tuple[str, str, str]], folder: Path) -> list[tuple[str, str, str]]:
    """Return data entries for PyInstaller: a file that names the shared libraries inside with their licences, and what Debian
    says of each.

    `binaries` are PyInstaller's (name inside, path, kind). Ends the build at a library whose licence is not known here.
    """
    paths = {Path(name).name: path for name, path, kind in sorted(binaries) if kind == "BINARY"}
    table = {name: licence for name in paths for stem, licence in LICENCES.items() if _is_called(stem, name)}
    if unknown := [name for name in paths if name not in table]:
        raise SystemExit(f"packaging/bundled.py knows no licence of: {', '.join(unknown)}")
    path = folder / "libraries.json"
    path.write_text(json.dumps(table | NOT_SHARED, indent=1))
    texts = {f"licences/{name}/copyright": text for name in paths if (text := _text_of_debian(paths[name]))}
    return [("fibatchd/libraries.json", str(path), "DATA"), *((name, text, "DATA") for name, text in texts.items())]


def _text_of_debian(library: str) -> str | None:
    """Return the path of the copyright file of the package that a file belongs to, None where that is not known."""
    names = (library, f"/usr{library}")  # /lib is a link to /usr/lib, and packages have either name
    try:
        found = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True, check=False).stdout
    except OSError:
        return None
    path = Path("/usr/share/doc", found.partition(":")[0], "copyright")
    return str(path) if path.is_file() else None


def _is_called(stem: str, name: str) -> bool:
    return re.match(rf"{re.escape(stem)}[\d.-]*\.so", name) is not None
