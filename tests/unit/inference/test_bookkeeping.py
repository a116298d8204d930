"""The books of interactive calls: nothing is lost while the store is away, nothing is written twice."""

import pytest
import trio

from fibatchd.domain.requests import Usage
from fibatchd.errors import StoreError, StoreUnavailable, StoreUncertain
from fibatchd.inference.bookkeeping import FLUSH_S, Bookkeeper
from fibatchd.inference.execute import Attempt

GOOD = Attempt((200, b"{}"), usage=Usage(10, 2, 5, 1), cost=7)
LOST = Attempt(cost=None)
UNSENT = Attempt(sent=False)


class Store:
    """Keeps what is written; may be away, or slow."""

    def __init__(self):
        self.parts = []
        self.calls = 0
        self.away = False
        self.refused = None
        self.uncertain = None
        self.gate = trio.Event()
        self.gate.set()

    async def write(self, script, parts):
        self.calls += 1
        if self.away:
            await trio.lowlevel.checkpoint()
            raise StoreUnavailable("away")
        await self.gate.wait()
        if self.uncertain is not None:
            stored, self.uncertain = self.uncertain, None
            self.parts += parts if stored else []
            raise StoreUncertain("no answer", (1, int(stored)))
        if any(part[0] == self.refused for part in parts):
            raise StoreError("never")
        self.parts += parts

    async def was_stored(self, uncertain):
        if self.away:
            await trio.lowlevel.checkpoint()
            raise StoreUnavailable("away")
        return bool(uncertain.receipt[1])

    def total(self, field):
        return sum(getattr(spent, field) for _, _, spent in self.parts)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
async def keeper(store, nursery, autojump_clock):
    # pytest-trio uses a clock that the test itself asks for; what only a fixture asks for is not used, and time is real.
    assert trio.lowlevel.current_clock() is autojump_clock, "the test must ask for autojump_clock, too"
    made = Bookkeeper(store)
    await nursery.start(made.run)
    return made


async def settled():
    await trio.testing.wait_all_tasks_blocked()


async def test_sums(store, keeper, autojump_clock):
    for attempt in (GOOD, GOOD, LOST, UNSENT):
        keeper.record("ada", "glm", attempt)
    keeper.record("ada", "qwen", GOOD)
    keeper.record("bob", "glm", GOOD)
    assert (keeper.pending("ada"), keeper.pending("bob"), keeper.pending("eve")) == (21, 7, 0)
    await settled()
    assert keeper.pending("ada") == 0
    sums = {
        (account, model): (s.attempts, s.cost, s.cost_unknown, s.input_tokens, s.cached_tokens, s.output_tokens)
        for account, model, s in store.parts
    }
    assert sums == {
        ("ada", "glm"): (3, 14, 1, 20, 4, 10),
        ("ada", "qwen"): (1, 7, 0, 10, 2, 5),
        ("bob", "glm"): (1, 7, 0, 10, 2, 5),
    }
    assert store.calls == 1


async def test_what_comes_during_a_write_is_the_next_one(store, keeper, autojump_clock):
    store.gate = trio.Event()
    keeper.record("ada", "glm", GOOD)
    await settled()
    for _ in range(3):
        keeper.record("ada", "glm", GOOD)
    assert keeper.pending("ada") == 28
    store.gate.set()
    await settled()
    assert (store.calls, store.total("cost"), keeper.pending("ada")) == (2, 28, 0)


async def test_a_store_that_is_away(store, keeper, autojump_clock):
    store.away = True
    keeper.record("ada", "glm", GOOD)
    await trio.sleep(10)
    keeper.record("ada", "glm", GOOD)
    keeper.record("ada", "qwen", LOST)
    assert 5 <= store.calls <= 15
    assert keeper.pending("ada") == 14
    store.away = False
    await trio.sleep(2)
    assert (store.total("cost"), store.total("attempts"), keeper.pending("ada")) == (14, 3, 0)


async def test_a_store_that_takes_long_to_say_that_it_is_away(store, keeper, autojump_clock):
    # As a database does whose machine is gone: each connection is tried for longer than the end would wait.
    store.gate = trio.Event()
    keeper.record("ada", "glm", GOOD)
    await trio.sleep(4 * FLUSH_S)
    assert keeper.pending("ada") == 7
    store.gate.set()
    await settled()
    assert (store.total("cost"), store.calls, keeper.pending("ada")) == (7, 1, 0)


@pytest.mark.parametrize("stored", [True, False])
async def test_a_write_without_an_answer_is_booked_once(store, keeper, autojump_clock, stored):
    store.uncertain = stored
    keeper.record("ada", "glm", GOOD)
    await trio.sleep(2)
    assert (store.total("cost"), store.total("attempts"), keeper.pending("ada")) == (7, 1, 0)


async def test_nothing_is_written_again_before_the_store_can_tell(store, keeper, autojump_clock):
    store.gate = trio.Event()
    keeper.record("ada", "glm", GOOD)
    await settled()
    store.uncertain, store.away = True, True
    store.gate.set()
    await trio.sleep(10)
    keeper.record("ada", "glm", GOOD)
    assert (store.calls, keeper.pending("ada")) == (1, 14)
    store.away = False
    await trio.sleep(2)
    assert (store.total("cost"), store.total("attempts"), keeper.pending("ada")) == (14, 2, 0)


async def test_the_rest_is_written_at_the_end(store, autojump_clock):
    keeper = Bookkeeper(store)
    async with trio.open_nursery() as nursery:
        await nursery.start(keeper.run)
        keeper.record("ada", "glm", GOOD)
        nursery.cancel_scope.cancel()
    assert store.total("cost") == 7


async def test_a_write_under_way_is_waited_for_at_the_end(store, autojump_clock):
    keeper = Bookkeeper(store)
    store.gate = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(keeper.run)
        keeper.record("ada", "glm", GOOD)
        await settled()
        nursery.cancel_scope.cancel()
        store.gate.set()
    assert (store.total("cost"), store.calls) == (7, 1)


async def test_the_end_does_not_wait_for_ever(store, autojump_clock):
    keeper = Bookkeeper(store)
    store.gate = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(keeper.run)
        keeper.record("ada", "glm", GOOD)
        await settled()
        began = trio.current_time()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began <= FLUSH_S + 0.1


async def test_what_the_store_never_takes_costs_nobody_else_their_books(store, keeper, autojump_clock):
    store.refused = "bob"
    for account in ("ada", "bob", "eve"):
        keeper.record(account, "glm", GOOD)
    await settled()
    keeper.record("eve", "glm", GOOD)
    await settled()
    assert [(account, spent.cost) for account, _, spent in store.parts] == [("ada", 7), ("eve", 7), ("eve", 7)]
    assert keeper.pending("bob") == 0
