"""Mixed traffic for minutes, or at full speed for an hour: nothing grows but what is stored.

FIBATCHD_LOAD_S sets another time, in seconds.
"""

import math
import os
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import daemons
import httpx2
import pytest
import trio
from daemons import DaemonProcess, Process
from mixed_traffic import CONFIG, STEPS, Client, receive_hooks, traffic
from vitals import MIB, Sample, Vitals, growth

from fibatchd.store import accounts
from fibatchd.store.migrate import core
from fibatchd.store.opening import open_store

WINDOWS = 40
WARM_UP = 0.25
"""Of the time: caches fill, the first rows reach their retention."""
KEPT_FOR_LONG = {"file_uploads", "webhooks", "spending"}
"""Rows that stay: what was spent, and for an hour when uploads came."""
GONE_S = 90
"""Within this time after the traffic all else of it has gone: its retention is 10 seconds."""

FIRST_NEEDED = 12
"""Descriptors that are opened when they are first needed, and stay: readers' connections to the database."""


@dataclass
class Window:
    """What was seen at the end of a part of the time, and how long calls took in it, in seconds."""

    sample: Sample
    median: float
    calls: int


@pytest.fixture
def processes():
    with daemons.closing_all() as found:
        yield found


@pytest.fixture
def daemon(processes, tmp_path):
    """A daemon, and behind it a model server that answers at once. Both give way to other tests."""
    light = Process(sys.executable, str(Path(daemons.__file__).parent / "light_model.py"), "0.005", "0.5")
    processes.append(light)
    daemon = DaemonProcess(tmp_path, CONFIG.format(url=f"http://127.0.0.1:{int(light.process.stdout.readline())}"))
    processes.append(daemon)
    for process in processes:
        os.setpriority(os.PRIO_PROCESS, process.process.pid, 5)
    return daemon


async def watch(vitals: Vitals, clients: list[Client], seconds: float) -> list[Window]:
    windows: list[Window] = []
    began = trio.current_time()
    for number in range(WINDOWS):
        await trio.sleep_until(began + seconds * (number + 1) / WINDOWS)
        took = [(kind, s) for client in clients for kind, s in client.seconds]
        for client in clients:
            client.seconds.clear()
        sample = await trio.to_thread.run_sync(vitals.look, trio.current_time())
        windows.append(
            Window(sample, statistics.median([s for kind, s in took if kind == "chat"] or [math.nan]), len(took))
        )
        print(_line(windows[-1], began), flush=True)
    return windows


def _line(window: Window, began: float) -> str:
    sample = window.sample
    rows = " ".join(f"{name}={count}" for name, count in sorted(sample.rows.items()) if count > 20)
    return (
        f"{sample.at - began:6.0f} s  {sample.memory / MIB:6.1f} MiB  {sample.descriptors} fds  {sample.threads} threads  "
        f"{sample.database / MIB:6.1f} MiB stored  chat {window.median * 1e3:5.1f} ms  {window.calls} calls  {rows}"
    )


async def make_keys(daemon: DaemonProcess, count: int) -> list[str]:
    """Make accounts, each with a key: what the command line does, without a process for each."""
    async with open_store("sqlite:fibatchd.db", daemon.folder, migrations=core(), exclusive=False) as store:
        for number in range(count):
            account = await store.write(accounts.create_account, f"client {number}", "internal")
            _, secret = await store.write(accounts.create_key, account.id)
            daemon.keys.append(secret)
    return daemon.keys


async def hold(daemon: DaemonProcess, seconds: float, rest_s: float) -> list[Window]:
    """Run the traffic; return what was seen. Afterwards nothing is left of it."""
    keys = await make_keys(daemon, len(STEPS))
    vitals = Vitals(daemon.process.pid, daemon.folder / "fibatchd.db")
    before = vitals.look(0)
    received: Counter[int] = Counter()
    async with trio.open_nursery() as nursery:
        hook = await nursery.start(receive_hooks, received)
        async with traffic(daemon.base, keys, hook, rest_s) as clients:
            windows = await watch(vitals, clients, seconds)
        done = sum((client.done for client in clients), Counter())
        print(f"done: {dict(done)}; webhooks: {dict(received)}")
        assert len(done) == len(set(STEPS)), "some client did nothing"
        assert received[204], "no webhook was delivered"
        await delete_uploads(daemon.base, keys)
        await all_gone(vitals, before)
        nursery.cancel_scope.cancel()
    return windows


async def delete_uploads(base: str, keys: list[str]) -> None:
    """A client that was stopped between an upload and its deletion has left a file, which is kept for a month."""
    for key in keys:
        async with httpx2.AsyncClient(base_url=base, headers={"authorization": f"Bearer {key}"}, timeout=120) as http:
            found = await http.get("/v1/files", params={"purpose": "batch"})
            for file in found.json()["data"]:
                (await http.delete(f"/v1/files/{file['id']}")).raise_for_status()


async def all_gone(vitals: Vitals, before: Sample) -> None:
    """Wait until what the traffic has stored is over its retention, and its connections are closed."""
    left: Mapping[str, int] = {}
    with trio.move_on_after(GONE_S):
        while True:
            now = vitals.look(0)
            left = {name: n for name, n in now.rows.items() if n > before.rows[name] and name not in KEPT_FOR_LONG}
            if not left and now.descriptors <= before.descriptors + FIRST_NEEDED and now.threads <= before.threads + 2:
                return
            await trio.sleep(1)
    raise AssertionError(f"left behind: {left}, {now.descriptors} descriptors, {now.threads} threads; before {before}")


def judge(windows: list[Window], *, alone: bool) -> None:
    """Nothing grew; `alone`: no other tests ran on the machine, so that times can be compared, too."""
    first = int(WARM_UP * WINDOWS)
    # A file is as long as the most that it ever held: it does not shrink, and grows while a quieter machine does more.
    most = list(accumulate((sum(window.sample.rows.values()) for window in windows), max))

    def grown(figures: Iterable[float]) -> float:
        points = zip((window.sample.at for window in windows), figures, strict=True)
        found = [(at, value) for at, value in points if not math.isnan(value)][first:]
        return growth(found) / statistics.median(value for _, value in found)

    assert grown(window.sample.memory for window in windows) < 0.05
    assert grown(window.sample.database / rows for window, rows in zip(windows, most, strict=True)) < 0.25
    if alone:
        assert grown(window.median for window in windows) < 0.25


async def held(daemon: DaemonProcess, seconds: float, *, alone: bool) -> None:
    """Beside other tests the clients rest between their steps, so that those get on."""
    windows = await hold(daemon, float(os.environ.get("FIBATCHD_LOAD_S", seconds)), 0 if alone else 0.25)
    judge(windows, alone=alone)
    assert daemon.process.poll() is None
    errors = [line for line in daemon.log_lines() if line["level"] in ("error", "critical")]
    assert not errors, errors[:3]


@pytest.mark.slow
@pytest.mark.begins
async def test_load_is_held(daemon):
    await held(daemon, 300, alone=False)


@pytest.mark.torture
async def test_load_is_held_for_an_hour(daemon):
    await held(daemon, 3600, alone=True)
