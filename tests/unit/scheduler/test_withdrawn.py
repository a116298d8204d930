"""What is claimed ahead of a fast model does not start once it may not: it is given back, and its attempt is not counted."""

import pytest
import trio
from scripted import after

from fibatchd.domain.states import FINAL
from fibatchd.store import accounts, drains
from fibatchd.store.interface import Query

FAST = """
[batches]
create_tiers = ["internal", "pro"]
[tiers.pro]
batch_concurrency = 64
daily_quota_usd = "1"
[[models]]
id = "m"
concurrency = 8
price_usd_per_million = { input = "1000", output = "0" }
[[models.upstreams]]
url = "http://upstream.test/v1"
"""
# An answer tells of 10 input tokens: 0.01 USD, a hundred of which are the quota.
CONCURRENCY = 8


def quickly(upstreams):
    upstream = upstreams["http://upstream.test/v1"]
    upstream.behaviour = after(0.002)
    return upstream


async def has_stock(w):
    for _ in range(3000):
        if len(w.scheduler.pools["m"].stock) >= CONCURRENCY:
            return
        await trio.sleep(0.01)
    raise AssertionError("nothing is claimed ahead")


def states_of():
    found = yield Query("SELECT status, attempts, started_at FROM requests WHERE status IN ('queued', 'running')")
    return found


async def settled(w):
    """All that waits is as if it had never been claimed; nothing runs."""
    await trio.sleep(0.2)
    assert set(await w.store.read(states_of)) <= {("queued", 0, None)}


async def test_a_quota_is_passed_by_what_is_in_flight_at_most(world, clock, upstreams):
    upstream = quickly(upstreams)
    async with world(FAST, epoch=1_796_000_000.0) as w:
        owner = await w.account("pro")
        batch_id = await w.submit(owner, 2000)
        await trio.sleep(20)
        assert 100 <= len(upstream.asked) <= 100 + CONCURRENCY
        await settled(w)
        await w.store.write(accounts.set_account_quota, owner[0].id, 2 * 10**12)
        await trio.sleep(0.5)
        assert 200 <= len(upstream.asked) <= 200 + CONCURRENCY, "a new quota counts at once"
        assert (await w.batch(owner, batch_id)).completed == len(upstream.asked)


@pytest.mark.parametrize("how", ["revoked", "suspended", "deleted", "tier"])
async def test_nothing_starts_for_an_owner_who_may_no_longer(world, clock, upstreams, how):
    upstream = quickly(upstreams)
    async with world(FAST) as w:
        account, key = await w.account()
        batch_id = await w.submit((account, key), 2000)
        await has_stock(w)
        if how == "tier":
            await w.store.write(accounts.set_account_tier, account.id, "free")
        else:
            await w.withdraw((account, key), how)
        await trio.sleep(0.002)  # the notice is heard
        asked = len(upstream.asked)
        await settled(w)
        assert len(upstream.asked) == asked
        batch = await w.batch((account, key), batch_id)
        assert batch is None or (batch.status in FINAL) == (how != "tier")


async def test_a_drained_model_holds_nothing(world, clock, upstreams):
    upstream = quickly(upstreams)
    async with world(FAST) as w:
        owner = await w.account()
        batch_id = await w.submit(owner, 2000)
        await has_stock(w)
        await w.store.write(drains.drain, "m")
        await settled(w)
        assert (await w.batch(owner, batch_id)).running == 0
        await w.store.write(drains.undrain, "m")
        assert (await w.until(owner, batch_id)).completed == 2000
        assert len(upstream.asked) == 2000


async def test_a_change_that_nobody_told_of_is_seen_when_it_is_looked_for(world, clock, upstreams):
    """As one by a command beside a daemon on SQLite."""
    upstream = quickly(upstreams)

    def move():
        yield Query("UPDATE accounts SET tier = 'free'")

    async with world(FAST) as w:
        owner = await w.account()
        await w.submit(owner, 2000)
        await has_stock(w)
        upstream.behaviour = after(5)  # too slow for the next claim to come soon
        await trio.sleep(0.1)
        assert w.scheduler.pools["m"].stock
        await w.store.write(move)
        await trio.sleep(1.1)
        assert not w.scheduler.pools["m"].stock
