"""Outcomes are written in groups: the first at once, and what comes right behind it together."""

from types import SimpleNamespace

import pytest
import trio

from fibatchd.domain.requests import Claimed
from fibatchd.scheduler.attempt import given_back
from fibatchd.scheduler.recorder import GATHER_S, GROUP_MAX, Recorder


class Store:
    """Notes when how many outcomes were written."""

    def __init__(self):
        self.groups = []

    async def write(self, _script, group, _policy):
        self.groups.append((round(trio.current_time() - self.began, 6), len(group)))
        await trio.sleep(0.001)
        return len(group)


@pytest.fixture
async def store():
    found = Store()
    found.began = trio.current_time()
    return found


@pytest.fixture
async def recorder(store, nursery):
    made = Recorder(SimpleNamespace(store=store, policy=SimpleNamespace(on_end=[])))
    await nursery.start(made.run)
    return made


def put(recorder, count):
    for number in range(count):
        recorder.put(given_back(Claimed(number, 1, 1, 1, "b", "a", "k", "m", "/", None, b"")))


async def test_one_that_comes_alone_is_written_at_once(store, recorder, autojump_clock):
    for _ in range(3):
        put(recorder, 1)
        await trio.sleep(1)
    assert store.groups == [(0, 1), (1, 1), (2, 1)]


async def test_what_comes_right_behind_is_gathered(store, recorder, autojump_clock):
    for _ in range(30):
        put(recorder, 1)
        await trio.sleep(GATHER_S / 10)
    await trio.sleep(1)
    assert [at for at, _ in store.groups] == pytest.approx([0, GATHER_S, 2 * GATHER_S, 3 * GATHER_S])
    assert [size for _, size in store.groups][1:3] == pytest.approx([10, 10], abs=1)


async def test_a_full_group_does_not_wait(store, recorder, autojump_clock):
    put(recorder, 1)
    await trio.sleep(0.002)
    put(recorder, 2 * GROUP_MAX)
    await trio.sleep(1)
    assert [size for _, size in store.groups] == [1, GROUP_MAX, GROUP_MAX]
    assert store.groups[-1][0] < GATHER_S
