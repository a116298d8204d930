"""The threads that read an SQLite file: no more than are needed, and none holds anything back."""

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from fibatchd.errors import StoreUnavailable
from fibatchd.store import migrate
from fibatchd.store.interface import Query
from fibatchd.store.sqlite import open_sqlite
from fibatchd.store.sqlite_threads import READERS

NAME = "fibatchd-sqlite-reader"


@pytest.fixture
async def store(tmp_path):
    opened = await open_sqlite(tmp_path / "a.db", migrations=migrate.core(), exclusive=True)
    yield opened
    await opened.aclose()


def readers():
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def who():
    yield Query("SELECT 1")
    return threading.get_ident()


def together(barrier):
    barrier.wait(10)
    return (yield from who())


def held(event, begun, ran):
    ran.append(begun)
    begun.set()
    event.wait(10)
    yield Query("SELECT 1")


async def test_one_after_the_other_needs_one_thread(store):
    assert len({await store.read(who) for _ in range(20)}) == 1
    assert len(readers()) == 1


async def test_reads_at_once_have_a_thread_each_up_to_the_limit(store):
    barrier, found = threading.Barrier(READERS), set()

    async def read():
        found.add(await store.read(together, barrier))

    async with trio.open_nursery() as nursery:
        for _ in range(3 * READERS):
            nursery.start_soon(read)
    assert len(found) == len(readers()) == READERS


async def test_what_nobody_waits_for_any_more_is_not_begun(store):
    event, ran = threading.Event(), []
    async with trio.open_nursery() as nursery:
        for _ in range(READERS):
            nursery.start_soon(store.read, held, event, threading.Event(), ran)
        await wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel_soon, scope)
            await store.read(held, event, threading.Event(), ran)
        assert scope.cancelled_caught
        event.set()
    await store.read(who)
    assert len(ran) == READERS


async def cancel_soon(scope):
    await wait_all_tasks_blocked()
    scope.cancel()


async def test_the_end_comes_after_what_was_asked_before(store, nursery):
    event, begun, found = threading.Event(), threading.Event(), []

    async def read():
        found.append(await store.read(held, event, begun, []))

    nursery.start_soon(read)
    await trio.to_thread.run_sync(begun.wait)
    nursery.start_soon(store.aclose)
    await wait_all_tasks_blocked()
    event.set()
    with trio.fail_after(10):
        while readers():
            await trio.lowlevel.checkpoint()
    await wait_all_tasks_blocked()
    assert found == [None]
    with pytest.raises(StoreUnavailable):
        await store.read(who)


def no_more_threads(monkeypatch):
    def start(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


async def test_without_any_thread_the_store_cannot_be_used_until_there_is_one(store, monkeypatch):
    no_more_threads(monkeypatch)
    for _ in range(READERS + 1):
        with pytest.raises(StoreUnavailable, match="can't start new thread"):
            await store.read(who)
    monkeypatch.undo()
    with trio.fail_after(10):
        await store.read(who)


async def test_where_there_can_be_no_more_threads_one_reads_it_all(store, monkeypatch):
    first, found = await store.read(who), []

    async def read():
        found.append(await store.read(who))

    no_more_threads(monkeypatch)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for _ in range(READERS):
                nursery.start_soon(read)
    monkeypatch.undo()
    assert found == [first] * READERS


async def test_an_exception_comes_out_and_the_thread_goes_on(store):
    def broken():
        yield Query("SELECT 1")
        raise LookupError("of the script's own")

    first = await store.read(who)
    with pytest.raises(LookupError):
        await store.read(broken)
    assert await store.read(who) == first
