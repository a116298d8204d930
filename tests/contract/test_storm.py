"""Many daemons at once, doing everything to the same few batches: the books are right at any moment, and all ends.

On PostgreSQL the transactions really overlap, so this is where locks taken in the wrong order, or read before they are
held, come to light; on SQLite it is a long random walk.
"""

import random

import pytest
import trio
from ledger import balanced
from scenario import (
    FINALIZER,
    POLICY,
    cancel,
    claim,
    create,
    daemon,
    delete,
    failed,
    finalize_all,
    get,
    given_back,
    owner,
    purge_all,
    report,
    succeeded,
    take_over,
    to_retry,
)  # fmt: skip

from fibatchd.domain.requests import Failure
from fibatchd.errors import LeaseLost
from fibatchd.store import claims, ending, sweeps
from fibatchd.store.admission import Limits

MAX_ATTEMPTS = 4
PLENTY = Limits(batches=1000, requests=100_000)


class Storm:
    """What the daemons share, and what each may do to it."""

    def __init__(self, store, seed):
        self.store, self.chance = store, random.Random(seed)
        self.alive: set[int] = set()
        self.batches: list[str] = []

    async def begin(self):
        self.owner = await owner(self.store)
        for _ in range(4):
            await self.create()

    async def create(self):
        models = self.chance.choices("ab", k=self.chance.randint(1, 12))
        finalizer = self.chance.choice([None, FINALIZER])
        self.batches.append((await create(self.store, self.owner, models, limits=PLENTY, finalizer=finalizer)).id)

    async def live(self, steps):
        """Be a daemon, and when its leases are lost the next one."""
        me = await daemon(self.store)
        self.alive.add(me)
        for _ in range(steps):
            try:
                await self.act(me)
            except LeaseLost:
                me = await daemon(self.store)
                self.alive.add(me)

    async def act(self, me):
        act = self.chance.choices(
            [self.work, self.create, self.close, self.remove, self.steal, self.finish, self.lose_model],
            [12, 3, 2, 1, 1, 3, 1],
        )[0]
        await act(me) if act in (self.work, self.finish, self.steal) else await act()

    async def work(self, me):
        taken = await claim(self.store, me, self.chance.choice("ab"), self.chance.randint(1, 4))
        ends = [
            self.chance.choice([failed, given_back, succeeded] + [self.again] * (c.attempt < MAX_ATTEMPTS))(c)
            for c in taken
        ]
        self.chance.shuffle(ends)
        await report(self.store, *ends[: len(ends) // 2])
        await report(self.store, *ends)

    @staticmethod
    def again(claimed):
        return to_retry(claimed, 0.0)

    async def close(self):
        batch_id = self.chance.choice(self.batches)
        if self.chance.random() < 0.5:
            await cancel(self.store, self.owner, batch_id)
        else:
            await self.store.write(ending.fail, batch_id, "owner_unauthorized", "gone", POLICY)

    async def remove(self):
        await delete(self.store, self.owner, self.chance.choice(self.batches))

    async def steal(self, me):
        """Take over a daemon that is alive, as after a pause of the machine: it notices, and goes on under a new id."""
        if others := sorted(self.alive - {me}):
            lost = self.chance.choice(others)
            self.alive.discard(lost)
            await take_over(self.store, lost, MAX_ATTEMPTS)

    async def finish(self, me):
        await finalize_all(self.store, me)
        await purge_all(self.store, me)

    async def lose_model(self):
        found, _ = await self.store.read(claims.candidates, "b")
        for candidate in found[:1]:
            gone = Failure("model_not_found", "gone", 404)
            await self.store.write(sweeps.fail_lane, candidate.lane, gone, 2, POLICY)

    async def end(self):
        """Let all that is left run to its end."""
        for lost in self.alive:
            await take_over(self.store, lost, MAX_ATTEMPTS)
        last = await daemon(self.store)
        for model in "ab":
            while taken := await claim(self.store, last, model):
                await report(self.store, *[succeeded(c) for c in taken])
        await self.finish(last)


async def weather(store, seed, daemons, steps):
    storm = Storm(store, seed)
    await storm.begin()
    done = trio.Event()

    async def watch():
        while not done.is_set():
            await balanced(store, MAX_ATTEMPTS)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        async with trio.open_nursery() as crew:
            for _ in range(daemons):
                crew.start_soon(storm.live, steps)
        done.set()
    await storm.end()
    await balanced(store, MAX_ATTEMPTS)
    left = [batch for batch_id in storm.batches if (batch := await get(store, storm.owner, batch_id))]
    assert left
    assert all(batch.is_final for batch in left), [b for b in left if not b.is_final]


@pytest.mark.parametrize("seed", range(3))
async def test_the_books_are_right_at_any_moment_of_a_storm(store, seed):
    await weather(store, seed, daemons=5, steps=25)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 130))
async def test_the_books_are_right_at_any_moment_of_a_long_storm(store, seed):
    await weather(store, seed, daemons=8, steps=200)
