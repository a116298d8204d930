"""What the service manager is told: a watchdog that is fed by a live loop and a store that answers; time to stop."""

import contextlib
import os
import socket

import pytest
import structlog
import trio

from fibatchd import systemd
from fibatchd.errors import StoreUnavailable
from fibatchd.monitoring import manager
from fibatchd.monitoring.manager import ServiceManager


class Store:
    """A store that answers, fails at once, or says nothing."""

    def __init__(self):
        self.mood = "answers"

    async def read(self, _script):
        await trio.lowlevel.checkpoint()
        if self.mood == "fails":
            raise StoreUnavailable("gone")
        if self.mood == "silent":
            await trio.sleep_forever()


@pytest.fixture
def sent(monkeypatch):
    """All that is sent, in order."""
    messages = []
    monkeypatch.setattr(systemd, "notify", lambda *states: messages.extend(states))
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    return messages


@contextlib.asynccontextmanager
async def running(store):
    made = ServiceManager(store)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run)
        yield made
        nursery.cancel_scope.cancel()


async def test_fed_more_often_than_asked(sent, autojump_clock):
    async with running(Store()):
        await trio.sleep(61)
    assert 4 <= sent.count("WATCHDOG=1") <= 20
    assert set(sent) == {"WATCHDOG=1"}


@pytest.mark.parametrize("mood", ["answers", "fails"])
async def test_an_error_is_an_answer(sent, autojump_clock, mood):
    store = Store()
    store.mood = mood
    async with running(store):
        await trio.sleep(3600)
        sent.clear()
        await trio.sleep(60)
    assert sent.count("WATCHDOG=1") >= 2


async def test_a_silent_store_starves_the_watchdog_and_one_that_speaks_again_feeds_it(sent, autojump_clock):
    store = Store()
    async with running(store):
        await trio.sleep(60)
        store.mood = "silent"
        await trio.sleep(manager.SILENT_S - 20)
        sent.clear()
        await trio.sleep(10)
        assert sent.count("WATCHDOG=1") >= 1
        with structlog.testing.capture_logs() as lines:
            await trio.sleep(60)
            sent.clear()
            await trio.sleep(600)
        assert sent == []
    assert [line["log_level"] for line in lines] == ["error"], "told once"


async def test_no_watchdog(sent, autojump_clock, monkeypatch):
    monkeypatch.delenv("WATCHDOG_USEC")
    async with running(Store()):
        await trio.sleep(600)
    assert sent == []


async def test_time_to_stop_is_asked_for_while_there_is_a_right_to_it(sent, autojump_clock, monkeypatch):
    monkeypatch.delenv("WATCHDOG_USEC")
    async with running(Store()) as made:
        made.stopping(600)
        await trio.sleep(601)
        during = sent.count("EXTEND_TIMEOUT_USEC=15000000")
        sent.clear()
        await trio.sleep(60)
        assert sent, "what comes after has its time, too"
        sent.clear()
        await trio.sleep(600)
        assert sent == [], "a daemon that hangs in its end is not protected"
    assert during >= 600 / 15


async def test_states(sent, autojump_clock):
    made = ServiceManager(Store())
    made.ready("Serving here")
    made.reloading()
    made.stopping(1)
    assert sent[:3] == ["READY=1", "STATUS=Serving here", "RELOADING=1"]
    assert sent[3].startswith("MONOTONIC_USEC=")
    assert "STOPPING=1" in sent


def test_a_manager_that_is_gone_or_full_holds_nobody_up(tmp_path, monkeypatch):
    path = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    systemd.notify("READY=1")  # nobody there
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        for _ in range(2000):  # more than its queue takes
            systemd.notify("WATCHDOG=1")
        assert listening.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize(
    ("usec", "pid", "expected"),
    [
        ("30000000", "", 30.0),
        ("30000000", "{pid}", 30.0),
        ("30000000", "{parent}", None),
        ("30000000", "999999999", None),
        ("0", "", None),
        ("x", "", None),
        ("", "", None),
    ],
)
def test_watchdog_interval(monkeypatch, usec, pid, expected):
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid.format(pid=os.getpid(), parent=os.getppid()))
    assert systemd.watchdog_interval() == expected
