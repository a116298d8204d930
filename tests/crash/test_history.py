"""Random histories on both stores, while one thing after the other fails: every invariant of history/checker.py holds.

A failing history names its seed, and is kept in a folder that it names too (with FIBATCHD_KEEP=1 a good one is as well). The
same work, and the same faults in the same order, again:

    FIBATCHD_SEED=4711 FIBATCHD_MINUTES=1 python -m pytest tests/crash/test_history.py -m torture -k sqlite
"""

import os
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import databases
import pytest
import trio
from history import checker, driver, faults, reading, record
from history.postgres_faults import Database
from history.stand import LIMITS, Stand
from hook_receiver import hook_receiver
from postgres_proxy import open_proxy

SECONDS = 60 * float(os.environ.get("FIBATCHD_MINUTES", "1"))


def chosen_seed() -> int:
    return int(os.environ.get("FIBATCHD_SEED") or time.time_ns() % 10**9)


async def live(stand, seed, seconds, breaks):
    """Run the stand for so long, then read everything."""
    chance = random.Random(f"{seed} faults")
    with hook_receiver() as receiver:
        await trio.to_thread.run_sync(stand.start)
        async with driver.accounts(stand, seed, receiver.url) as found:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(driver.drive, found, seconds)
                nursery.start_soon(faults.inject, stand, breaks, chance, seconds - 1)
            await reading.read_all(found)
            await reading.until_purged(stand)
        assert await trio.to_thread.run_sync(stand.daemon.terminate) == 0
        await reading.read_rows(stand)
        for post in receiver.posts:
            event = post.event
            told = {"id": post.id, "type": event["type"], "batch": event["data"].get("id")}
            stand.history.note("event", at=post.at, **told)


def run(seed, seconds, storage, breaks=None, *, database=None):
    """Live through a history and check it; where it is wrong, keep it and say how it is made again."""
    folder = Path(tempfile.mkdtemp(prefix=f"fibatchd-history-{seed}-"))
    print(f"seed {seed}, history in {folder}")
    stand = Stand(folder, storage, seed=seed)
    stand.history.note("begun", seed=seed, limits=LIMITS, wall=time.time() - time.monotonic())

    async def whole():
        if database is None:
            await live(stand, seed, seconds, breaks)
            return
        async with open_proxy(storage) as proxy:
            stand.storage, stand.database = proxy.url, storage
            server = Database(database, proxy)
            await live(stand, seed, seconds, faults.DAEMON | server.faults() if breaks is None else breaks)

    try:
        trio.run(whole)
    finally:
        stand.close()
    entries = record.read(stand.histories)
    print(", ".join(f"{count} {kind}s" for kind, count in Counter(entry["kind"] for entry in entries).items()))
    problems = checker.check(entries)
    assert not problems, f"seed {seed}, history in {folder}:\n" + "\n".join(problems[:40])
    if not os.environ.get("FIBATCHD_KEEP"):
        shutil.rmtree(folder)


def on_postgres(seed, seconds, breaks=None):
    with databases.own_server() as server:
        server.psql("ALTER SYSTEM SET max_connections = 40; ALTER SYSTEM SET superuser_reserved_connections = 0;")
        run(seed, seconds, server.get_uri(), breaks, database=server)


@pytest.mark.slow
def test_a_history_on_sqlite():
    run(chosen_seed(), 12, "sqlite:fibatchd.db", faults.DAEMON | faults.SQLITE)


@pytest.mark.slow
def test_a_history_on_postgres():
    on_postgres(chosen_seed(), 12)


@pytest.mark.torture
def test_a_long_history_on_sqlite():
    run(chosen_seed(), SECONDS, "sqlite:fibatchd.db", faults.DAEMON | faults.SQLITE)


@pytest.mark.torture
def test_a_long_history_on_postgres():
    on_postgres(chosen_seed(), SECONDS)


@pytest.mark.torture
def test_a_history_whose_clock_is_stepped_on_sqlite():
    run(chosen_seed(), SECONDS, "sqlite:fibatchd.db", faults.DAEMON | faults.CLOCK)


@pytest.mark.torture
def test_a_history_whose_clock_is_stepped_on_postgres():
    on_postgres(chosen_seed(), SECONDS, faults.DAEMON | faults.CLOCK)
