"""What `make audit` makes of what pip-audit says: a known vulnerability fails, a service out of reach does not, and says so."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "audit.py"


@pytest.fixture(scope="module")
def audit():
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def said(*packages):
    return json.dumps({"dependencies": packages, "fixes": []})


GOOD = {"name": "good", "version": "1", "vulns": []}
BAD = {"name": "bad", "version": "2", "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["3"], "aliases": []}]}
UNKNOWN = {"name": "unknown", "skip_reason": "Dependency not found on PyPI and could not be audited: unknown (1)"}


def test_known_vulnerabilities_fail(audit):
    status, lines = audit.verdict(said(GOOD, BAD, UNKNOWN), "Found 1 known vulnerability in 1 package\n")
    assert status == 1
    assert lines[0] == "bad 2: PYSEC-2026-1, mended in 3"
    assert "unknown" in lines[-1]


def test_none(audit):
    assert audit.verdict(said(GOOD), "")[0] == 0


@pytest.mark.parametrize(
    ("stdout", "stderr", "why"),
    [
        ("", "Traceback …\nrequests.exceptions.ConnectionError: no route to host\n", "no route to host"),
        ("", "", "it says nothing"),
        ("<html>", "", "it says nothing"),
        (said(UNKNOWN, UNKNOWN), "", "knows none of 2 packages"),
    ],
)
def test_a_service_out_of_reach_is_told_and_does_not_fail(audit, stdout, stderr, why):
    status, (line,) = audit.verdict(stdout, stderr)
    assert status == 0
    assert line.startswith("NOT AUDITED: ")
    assert why in line
