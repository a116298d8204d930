"""What the system's limits leave of memory: RLIMIT_AS and control groups of both versions."""

import math
import subprocess
import sys

import pytest

from fibatchd import memory


def group(folder, path, **files):
    (folder / path).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / path / name.replace("_", ".", 1)).write_text(text)


@pytest.mark.parametrize(
    ("membership", "expected"),
    [
        ("0::/system.slice/fibatchd.service\n", [100, 300]),
        ("0::/elsewhere\n", []),
        ("9:cpu,cpuacct:/x\n4:memory:/jobs\n0::/\n", [200]),
        ("4:memory:/of/another/namespace\n", []),
    ],
)
def test_the_limits_of_all_groups_above(tmp_path, membership, expected):
    groups = tmp_path / "groups"
    group(groups, "system.slice/fibatchd.service", memory_max="100\n")
    group(groups, "system.slice", memory_max="300\n")
    group(groups, ".", memory_max="max\n")
    group(groups, "memory/jobs", memory_limit_in_bytes="200\n")
    memberships = tmp_path / "cgroup"
    memberships.write_text(membership)
    assert list(memory._limits(memberships, groups)) == expected


def test_where_nothing_tells_there_is_room(tmp_path, monkeypatch):
    assert list(memory._limits(tmp_path / "none", tmp_path)) == []
    monkeypatch.setattr(memory, "group_limit", lambda: 1e12)
    monkeypatch.setattr(memory, "_STATM", tmp_path / "none")
    assert memory.room() == math.inf


def test_a_group_leaves_what_is_not_resident(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "group_limit", lambda: 1e12)
    (tmp_path / "statm").write_text("900 300 1 1 0 1 0\n")
    monkeypatch.setattr(memory, "_STATM", tmp_path / "statm")
    assert memory.room() == 1e12 - 300 * memory._PAGE


def test_the_address_space_of_a_process_that_is_limited():
    script = """
import resource
from fibatchd import memory
assert memory.room() > 1 << 40 or memory.group_limit() < float("inf")
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
before = memory.room()
held = bytearray(100_000_000)
print(0 < before < 1 << 30, round((before - memory.room()) / 1e7))
"""
    assert subprocess.check_output([sys.executable, "-c", script], text=True).split() == ["True", "10"]
