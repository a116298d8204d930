"""A disk that does not answer: the SQLite driver lets go of whoever does not want to wait any more."""

import threading

import pytest
import trio

from fibatchd.errors import StoreUnavailable
from fibatchd.store import migrate, sqlite, sqlite_threads
from fibatchd.store.interface import Query


@pytest.fixture
def answering():
    """An event without which statements wait, in the driver's own thread."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
async def store(tmp_path, answering):
    opened = await sqlite.open_sqlite(tmp_path / "a.db", migrations=migrate.core(), exclusive=True)
    yield opened
    answering.set()
    await opened.aclose()


def stuck(answering, begun):
    begun.set()
    answering.wait()
    yield Query("SELECT 1")


def two():
    return (yield Query("SELECT 2"))


def endless(begun):
    begun.set()
    yield Query("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n")


async def until(event):
    await trio.to_thread.run_sync(event.wait)


async def test_a_read_that_is_cancelled_is_not_waited_for(store, answering, nursery):
    begun = threading.Event()
    with trio.CancelScope() as scope:
        nursery.start_soon(until_then, begun, scope)
        await store.read(stuck, answering, begun)
    assert scope.cancelled_caught
    assert not answering.is_set()
    answering.set()
    assert await store.read(two) == [(2,)]


async def test_a_read_that_is_cancelled_does_not_go_on(store, nursery):
    """It would hold one of the few readers, for whoever asks and leaves again and again."""
    for _ in range(sqlite_threads.READERS):
        begun = threading.Event()
        with trio.CancelScope() as scope:
            nursery.start_soon(until_then, begun, scope)
            await store.read(endless, begun)
        assert scope.cancelled_caught
    with trio.fail_after(60):
        assert await store.read(two) == [(2,)]


async def until_then(begun, scope):
    await until(begun)
    scope.cancel()


async def test_the_end_waits_for_a_write_only_so_long(store, answering, nursery, monkeypatch):
    monkeypatch.setattr(sqlite, "CLOSE_S", 0.01)
    begun = threading.Event()
    with trio.CancelScope() as scope:
        nursery.start_soon(until_then, begun, scope)
        await store.write(stuck, answering, begun)
    await store.aclose()
    with pytest.raises(StoreUnavailable):
        await store.read(stuck, answering, begun)
