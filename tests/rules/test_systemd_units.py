"""The units: systemd takes them, they are hardened, and they agree with the program's defaults."""

import re
import subprocess
from pathlib import Path

import pytest

from fibatchd.config import Server

UNITS = Path(__file__).parents[2] / "systemd"
SERVICES = ["fibatchd.service", "fibatchd@.service"]
DOCS = (UNITS.parent / "docs" / "systemd.md").read_text()
MOST_EXPOSED = 1.5


def settings(name):
    """A unit's settings; of one that is there several times, all values."""
    found = {}
    for key, value in re.findall(r"^([A-Za-z]+)=(.*)$", (UNITS / name).read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


@pytest.fixture
def installed(tmp_path):
    """The units beside each other as in /etc/systemd/system, with a program that is there."""
    for path in UNITS.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace("/usr/local/bin/fibatchd", "/bin/true"))
    return tmp_path


def analyze(needs, *words):
    return subprocess.run(
        [needs("systemd-analyze"), *map(str, words)], capture_output=True, text=True, check=False, env={"LANG": "C"}
    )


def test_systemd_has_nothing_to_say_against_them(needs, installed):
    units = [installed / name for name in (*SERVICES, "fibatchd.socket")]
    done = analyze(needs, "verify", "--man=no", "--recursive-errors=no", *units)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_check_would_find_a_mistake(needs, installed):
    unit = installed / "fibatchd.service"
    unit.write_text(unit.read_text().replace("Restart=on-failure", "Restrat=on-failure"))
    assert "Restrat" in analyze(needs, "verify", "--man=no", "--recursive-errors=no", unit).stderr


@pytest.mark.parametrize("name", SERVICES)
def test_hardened(needs, installed, name):
    done = analyze(needs, "security", "--offline=true", "--no-pager", installed / name)
    (level,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert float(level) <= MOST_EXPOSED


@pytest.mark.parametrize("name", SERVICES)
def test_time_to_stop(name):
    (stop_s,) = settings(name)["TimeoutStopSec"]
    assert float(stop_s) > Server().drain_s


def test_several_daemons_are_one_daemon_with_other_names():
    one, several = ((UNITS / name).read_text().splitlines() for name in SERVICES)
    differing = {line for pair in zip(one, several, strict=True) if len(set(pair)) == 2 for line in pair}
    assert {line.partition("=")[0] for line in differing if not line.startswith("#")} == {
        "Description", "ExecStart", "StateDirectory",
    }  # fmt: skip
    assert all("%i" in line for line in differing if line in several and not line.startswith("#"))


@pytest.mark.parametrize("name", SERVICES)
def test_notify_and_reload_as_the_oldest_supported_systemd_has_them(name):
    unit = settings(name)
    assert unit["Type"] == ["notify"]
    assert unit["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert float(unit["WatchdogSec"][0]) >= 10


@pytest.mark.parametrize("name", SERVICES)
def test_the_binary_has_a_place_to_unpack_itself(name):
    """Read-only are system and home, and the program is run from where it is unpacked: nobody else may write there."""
    unit = settings(name)
    assert (unit["CacheDirectory"], unit["CacheDirectoryMode"]) == (["fibatchd"], ["0700"])
    assert "NoExecPaths" not in unit
    assert unit["NotifyAccess"] == ["main"], "which is enough: the launcher becomes the program"


def calls(name):
    """The system calls that a set of systemd's has."""
    listing = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
    found = [line.strip() for line in listing.stdout.splitlines() if line.startswith("    ") and "#" not in line]
    return {call for entry in found for call in (calls(entry) if entry.startswith("@") else {entry})}


def test_the_filter_lets_the_launcher_work(needs):
    needs("systemd-analyze")
    used = {"execve", "flock", "syncfs", "mkdir", "rename", "symlink", "fstatfs", "unlinkat", "getdents64"}
    assert used <= calls("@system-service") - calls("@privileged") - calls("@resources")


def test_the_socket_is_the_default_address():
    assert settings("fibatchd.socket")["ListenStream"] == list(Server().listen)


@pytest.mark.parametrize("name", sorted(path.name for path in UNITS.iterdir()))
def test_described(name):
    assert f"systemd/{name}" in DOCS
