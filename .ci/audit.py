"""Looks the installed packages up among the known vulnerabilities, with pip-audit; `make audit`.

    python .ci/audit.py PIP-AUDIT SITE-PACKAGES

Exit status 1 where a package has one. Where the advisory service cannot be reached, or knows none of the packages (a mirror
of the package index may have no advisories), nothing was audited: that is said, and is no failure.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

SERVICE = "the advisory service"
TIME_S = 300


def main(pip_audit: str, packages: str) -> int:
    command = [pip_audit, "--path", packages, "--skip-editable", "--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_S, check=False)
    except subprocess.TimeoutExpired:
        print(f"NOT AUDITED: {SERVICE} did not answer within {TIME_S} s")
        return 0
    status, lines = verdict(done.stdout, done.stderr)
    print(*lines, sep="\n")
    return status


def verdict(stdout: str, stderr: str) -> tuple[int, list[str]]:
    """Return the exit status, and what to say, for what pip-audit has written."""
    try:
        found: list[dict[str, Any]] = json.loads(stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (stderr.strip().splitlines() or ["it says nothing"])[-1]
        return 0, [f"NOT AUDITED: {SERVICE} cannot be used: {reason[:300]}"]
    audited = [package for package in found if "vulns" in package]
    if not audited:
        return 0, [f"NOT AUDITED: {SERVICE} knows none of {len(found)} packages"]
    bad = [line for package in audited for line in _vulnerabilities(package)]
    left_out = [package["name"] for package in found if "vulns" not in package]
    lines = [*bad, f"audited {len(audited)} packages: {len(bad)} known vulnerabilities"]
    if left_out:
        lines.append(f"not audited, since {SERVICE} does not know them: {', '.join(left_out)}")
    return int(bool(bad)), lines


def _vulnerabilities(package: dict[str, Any]) -> Iterator[str]:
    for found in package["vulns"]:
        mended = ", ".join(found.get("fix_versions", ())) or "no release yet"
        yield f"{package['name']} {package['version']}: {found['id']}, mended in {mended}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
