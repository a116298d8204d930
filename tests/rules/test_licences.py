"""Everything that the program brings with it may be passed on with it: no library is under a copyleft licence."""

import re
import runpy
from pathlib import Path

import pytest

from fibatchd.cli.version import libraries, licence_of

BUNDLED = runpy.run_path(str(Path(__file__).parents[2] / "packaging" / "bundled.py"))
PERMISSIVE = {
    "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "MIT-0", "PSF-2.0", "ISC", "0BSD", "Zlib", "bzip2-1.0.6",
    "blessing",
    "Apache Software License", "BSD License", "MIT License",  # as classifiers name them
    "any-OSI",  # apsw: whichever the Open Source Initiative has approved
    "GPL-3.0-or-later WITH GCC-exception-3.1",  # the exception covers what a compiler puts into everything
    "GPL-2.0-or-later WITH Bootloader-exception",  # and this one what PyInstaller makes
}  # fmt: skip


def parts(licence):
    return re.split(r" AND | OR |, ", licence)


@pytest.mark.parametrize("library", libraries(), ids=lambda library: library.metadata["Name"])
def test_a_library(library):
    assert [part for part in parts(licence_of(library)) if part not in PERMISSIVE] == []


def test_what_the_binary_brings_of_the_machine():
    assert {*BUNDLED["LICENCES"].values(), *BUNDLED["NOT_SHARED"].values()} <= PERMISSIVE


def test_modules_whose_libraries_are_copyleft_are_left_out_of_the_binary():
    assert not {"readline", "_gdbm", "_dbm", "nis", "_crypt"} & set(BUNDLED["standard_library"]())
    assert {"json", "xml.etree.ElementTree", "sqlite3", "_ssl"} <= set(BUNDLED["standard_library"]())


def test_a_shared_library_without_a_known_licence_ends_the_build(tmp_path):
    with pytest.raises(SystemExit, match=r"no licence of: libreadline\.so\.8"):
        BUNDLED["licences_of_libraries"]([("libreadline.so.8", "/lib/libreadline.so.8", "BINARY")], tmp_path)
