"""Regular expressions: what Python of some versions matches wrongly does not occur."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("fibatchd", "plugins") for path in (ROOT / folder).rglob("*.py"))
# As in `(?:…)++`, `(?:…){0,9}+` and `(?>…)`. In Python before 3.11.5, Debian 12's among them, such a group matches less than it
# should where what is in it can match in several ways (github.com/python/cpython/issues/106052).
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>")


def test_it_is_found():
    assert POSSESSIVE_GROUP.findall(r"(a){2,}+ (a)*+ (?>a)") == ["){2,}+", ")*+", "(?>"]


def test_no_group_is_possessive():
    found = {path: POSSESSIVE_GROUP.findall(path.read_text()) for path in SOURCES}
    assert not any(found.values()), found
