"""What docs/security.md and docs/reliability.md name as shown by a test is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
FOLDERS = "|".join(sorted(folder.name for folder in TESTS.iterdir() if folder.is_dir()))


def named(page):
    text = (ROOT / "docs" / page).read_text("utf-8")
    yield from re.findall(rf"`(?:tests/)?((?:{FOLDERS})/[\w./*-]*)`", text)
    yield from re.findall(r"\]\(\.\./tests/([\w./-]+)\)", text)


@pytest.mark.parametrize("page", ["security.md", "reliability.md"])
def test_every_test_that_is_named_exists(page):
    found = set(named(page))
    assert len(found) > 5
    assert [pattern for pattern in sorted(found) if not list(TESTS.glob(pattern.rstrip("/")))] == []
