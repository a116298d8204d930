"""Where the one file unpacks itself: once, safely beside others, never where somebody else could change it."""

import fcntl
import os
import signal
import subprocess
from dataclasses import replace

import pytest


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def fresh(binary, cache):
    """The binary, with nowhere unpacked."""
    return replace(binary, env={"CACHE_DIRECTORY": str(cache)})


def start(program, **env):
    return subprocess.Popen(
        program.command("--version", **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_several_first_starts_at_once(fresh, cache):
    answers = [process.communicate(timeout=60) for process in [start(fresh) for _ in range(3)]]
    assert answers == [("fibatchd, version 0.1.0\n", "")] * 3
    (folder,) = cache.iterdir()
    before = folder.stat().st_ino
    fresh.run("--version")
    assert folder.stat().st_ino == before, "it is unpacked once"


def test_what_is_left_of_others_is_removed_unless_it_runs(fresh, cache):
    old, running, half = (cache / f"fibatchd-0.0.{n}-0123456789abcdef" for n in range(3))
    half = half.with_name(f"{half.name}.aB3xY9")
    own = {"not-ours", "fibatchd-backups", "fibatchd-0.1-0123456789abcdeg", "fibatchd-0123456789abcdef"}
    for folder in (old, running, half, *(cache / name for name in own)):
        (folder / "lib").mkdir(parents=True)
        (folder / "lib" / "part").touch()
    held = os.open(running, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        fresh.run("--version")
    finally:
        os.close(held)
    left = {path.name for path in cache.iterdir()}
    assert {running.name} | own <= left
    assert len(left) == len(own) + 2


@pytest.mark.usefixtures("demo_port")
def test_a_running_daemon_keeps_its_folder(fresh, tmp_path):
    """As the test above holds a folder, so does a program that runs from it."""
    process = subprocess.Popen(
        fresh.command("demo", "--data-dir", tmp_path / "demo"), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline().startswith("Submitted")
        (folder,) = (tmp_path / "cache").iterdir()
        with pytest.raises(BlockingIOError):
            lock_alone(folder)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    lock_alone(folder)


def lock_alone(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def test_killed_while_it_unpacks(fresh, cache):
    process = start(fresh)
    while process.poll() is None and not list(cache.glob("fibatchd-*/lib")):
        pass  # another process' files can only be looked for
    process.kill()
    process.communicate()
    assert fresh.run("--version") == "fibatchd, version 0.1.0\n"
    (folder,) = cache.iterdir()
    assert (folder / "fibatchd").exists()


def test_a_folder_without_its_program_is_made_anew(fresh, cache):
    fresh.run("--version")
    (folder,) = cache.iterdir()
    (folder / "fibatchd").unlink()
    assert fresh.run("--version") == "fibatchd, version 0.1.0\n"
    assert list(cache.iterdir()) == [folder]


def test_a_place_that_others_may_write_to_is_not_used(fresh, cache, tmp_path):
    cache.chmod(0o777)
    home = tmp_path / "home"
    home.mkdir()
    fresh.run("--version", HOME=str(home))
    assert list(cache.iterdir()) == []
    assert len(list((home / ".cache" / "fibatchd").iterdir())) == 1
    assert (home / ".cache" / "fibatchd").stat().st_mode & 0o777 == 0o700


def test_nowhere_to_go(fresh, cache):
    cache.chmod(0o777)
    done = start(fresh, TMPDIR="/proc")
    _, errors = done.communicate(timeout=60)
    assert done.returncode == 1
    assert f"{cache}: belongs to somebody else, or others may write to it" in errors
    assert "/proc/fibatchd-" in errors


def test_a_damaged_file_leaves_nothing(fresh, cache, tmp_path):
    """What was cut or changed on its way must not become a program that is kept for good."""
    content = bytearray(fresh.path.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content)
    damaged.chmod(0o700)
    done = start(replace(fresh, path=damaged), TMPDIR="/proc")
    _, errors = done.communicate(timeout=60)
    assert done.returncode == 1
    assert str(cache) in errors
    assert list(cache.iterdir()) == []


def test_a_link_among_temporary_files_is_not_followed(fresh, cache, tmp_path):
    """Whoever put it there could turn it around, and what lies where it points is not for the launcher to remove."""
    cache.chmod(0o777)
    own = tmp_path / "own"
    (own / "fibatchd-of-mine").mkdir(parents=True)
    (tmp_path / f"fibatchd-{os.geteuid()}").symlink_to(own)
    done = start(fresh, TMPDIR=str(tmp_path))
    done.communicate(timeout=60)
    assert done.returncode == 1
    assert [path.name for path in own.iterdir()] == ["fibatchd-of-mine"]
