"""A model's places under load: interactive requests first, accounts and their batches in turn, limits held, and a
configuration that changes meanwhile."""

import json
from collections import Counter

import pytest
import trio
from scripted import after, unreachable

from fibatchd.ids import new_id
from fibatchd.scheduler import demand
from fibatchd.store import accounts, claims
from fibatchd.store.interface import Query

A, B = "http://a/v1", "http://b/v1"
ACCESS = '[batches]\ncreate_tiers = ["free", "pro", "internal", "admin"]\nretry_base_s = 0.1\nretry_cap_s = 1\n'


def model(name="m", url=A, concurrency=8, **more):
    settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    return f'[[models]]\nid = "{name}"\nconcurrency = {concurrency}\n{settings}[[models.upstreams]]\nurl = "{url}"\n'


def held():
    rows = yield Query("SELECT COUNT(*) FROM requests WHERE status = 'running'")
    return rows[0][0]


async def test_with_the_capacity_in_use_by_others_nothing_starts_until_a_second_after(world, clock, upstreams):
    async with world(ACCESS + model(capacity=8)) as w:
        owner = await w.account()
        await w.submit(owner, 10_000)
        await trio.sleep(2.05)
        assert upstreams[A].running.total() == 8
        with w.context.load.enter("m"):
            others = [w.context.load.enter("m") for _ in range(7)]
            for other in others:
                other.__enter__()
            await trio.sleep(0.15)
            assert upstreams[A].running.total() == 0, "what ran has finished"
            asked = len(upstreams[A].asked)
            await trio.sleep(20)
            assert len(upstreams[A].asked) == asked
            assert await w.store.read(held) == 0, "nothing stays claimed that has nowhere to go"
            others[0].__exit__(None, None, None)
            ebbed = trio.current_time()
            await trio.sleep(0.9)
            assert len(upstreams[A].asked) == asked
            await trio.sleep(0.3)
            assert upstreams[A].asked[asked][0] == pytest.approx(ebbed + 1, abs=0.1)
            assert upstreams[A].running.total() == 1
            for other in others[1:]:
                other.__exit__(None, None, None)
        await trio.sleep(1.2)
        assert upstreams[A].running.total() == 8


async def test_gaps_between_interactive_requests_are_not_jumped_into(world, clock, upstreams):
    async with world(ACCESS + model(capacity=1)) as w:
        await w.submit(await w.account(), 100)
        for _ in range(20):
            with w.context.load.enter("m"):
                await trio.sleep(0.5)
            await trio.sleep(0.4)
        assert len(upstreams[A].asked) <= 1


async def test_load_that_the_upstream_reports_is_yielded_to(world, clock, upstreams):
    async with world(ACCESS + model(capacity=8, reserve=2)) as w:
        await w.submit(await w.account(), 10_000)
        await trio.sleep(1.05)
        assert upstreams[A].running.total() == 6
        w.context.load.report("m", 4)
        await trio.sleep(1)
        assert upstreams[A].running.total() == 2
        w.context.load.report("m", 0)
        await trio.sleep(1.5)
        assert upstreams[A].running.total() == 6


@pytest.mark.parametrize(("tier", "limit"), [("free", 8), ("pro", 16), ("internal", 64), ("admin", 64)])
async def test_an_accounts_limit_holds_over_all_models(world, clock, upstreams, tier, limit):
    both = model("m", A, concurrency=100) + model("n", B, concurrency=100)
    async with world(ACCESS + both) as w:
        most = 0

        async def answer(_prompt):
            nonlocal most
            most = max(most, upstreams[A].running.total() + upstreams[B].running.total())
            return await after(0.1)(_prompt)

        upstreams[A].behaviour = upstreams[B].behaviour = answer
        owner = await w.account(tier)
        found = [await w.submit(owner, 10 * limit, name) for name in ("m", "n")]
        await trio.sleep(0.55)
        assert upstreams[A].running.total() + upstreams[B].running.total() == limit, "and it is made use of"
        assert [(await w.until(owner, batch_id)).completed for batch_id in found] == [10 * limit] * 2
        assert most == limit


async def test_who_is_held_up_by_the_limit_goes_on_when_work_elsewhere_ends(world, clock, upstreams):
    """Also where it had some places left: it is told when there are more."""
    both = model("m", A, concurrency=100) + model("n", B, concurrency=100)
    async with world(ACCESS + both) as w:
        owner = await w.account("free")
        upstreams[A].behaviour, upstreams[B].behaviour = after(0.3), after(30)
        first = await w.submit(owner, 6)
        await trio.sleep(0.05)
        assert upstreams[A].running.total() == 6
        await w.submit(owner, 8, "n")
        await trio.sleep(0.05)
        assert upstreams[B].running.total() == 2
        await w.until(owner, first)
        await trio.sleep(0.1)
        assert upstreams[B].running.total() == 8


async def test_an_account_at_its_limit_has_a_stock_all_the_same(world, clock, upstreams):
    """What is claimed ahead does not count as running, so that its places are filled without asking the store."""
    async with world(ACCESS + model(concurrency=100)) as w:
        upstreams[A].behaviour = after(0.002)
        owner = await w.account("free")
        batch_id = await w.submit(owner, 9000)
        for _ in range(20):
            await trio.sleep(0.05)
            assert upstreams[A].running.total() == 8
        assert len(w.scheduler.pools["m"].stock) > 20
        assert (await w.until(owner, batch_id)).completed == 9000
        assert upstreams[A].most == 8


async def test_places_that_a_batch_at_its_end_cannot_use_go_to_the_next_at_once(world, clock, upstreams):
    async with world(ACCESS + model(concurrency=8)) as w:
        owner = await w.account()
        upstreams[A].behaviour = after(0.3)
        await w.submit(owner, 12, text="short")
        await w.submit(owner, 100, text="long")
        for _ in range(3):
            await trio.sleep(0.2)
            assert upstreams[A].running.total() == 8
            await trio.sleep(0.1)


async def test_a_small_batch_behind_a_large_one_has_its_turn_at_once(world, clock, upstreams):
    async with world(ACCESS + model(concurrency=8)) as w:
        large, small = await w.account(), await w.account()
        await w.submit(large, 5000, text="large")
        await trio.sleep(2)
        began = trio.current_time()
        batch_id = await w.submit(small, 20, text="small")
        batch = await w.until(small, batch_id)
        assert batch.completed == 20
        asked = upstreams[A].between(began, trio.current_time())
        first = next(n for n, prompt in enumerate(asked) if prompt.startswith("small"))
        assert first <= 16, "the next places that came free"
        assert trio.current_time() - began < 1.2, "five rounds of four, of a tenth of a second"


async def test_a_newcomer_does_not_wait_for_what_is_claimed_ahead(world, clock, upstreams):
    async with world(ACCESS + model(concurrency=8)) as w:
        upstreams[A].behaviour = after(0.002)
        large, small = await w.account(), await w.account()
        await w.submit(large, 9000, text="large")
        await trio.sleep(1)
        assert len(w.scheduler.pools["m"].stock) > 20
        await w.submit(small, 4, text="small")
        began = trio.current_time()
        await trio.sleep(0.02)
        asked = upstreams[A].between(began, trio.current_time())
        last = max(n for n, prompt in enumerate(asked) if prompt.startswith("small"))
        assert asked.count("small 3") == 1
        assert last <= 48, "half the stock may go before anything is claimed, and then every other one"


async def test_batches_that_were_stored_in_another_order_than_they_came_take_turns_all_the_same(
    world, clock, upstreams
):
    """A batch's id follows the moment of its call, its lane's number the moment its requests were stored."""
    async with world(ACCESS + model(concurrency=1)) as w:
        owner = await w.account()
        ids = [new_id("batch_") for _ in range(3)]
        for batch_id in reversed(ids):
            await w.submit(owner, 200, text=batch_id, batch_id=batch_id)
        await trio.sleep(3)
        turns = Counter(prompt.split()[0] for _, prompt in upstreams[A].asked)
        assert set(turns) == set(ids)
        assert max(turns.values()) - min(turns.values()) <= 2


class TestReload:
    async def test_more_and_fewer_places(self, world, clock, upstreams):
        async with world(ACCESS + model(concurrency=4)) as w:
            owner = await w.account()
            batch_id = await w.submit(owner, 600)
            await trio.sleep(1.05)
            assert upstreams[A].running.total() == 4
            await w.reload(ACCESS + model(concurrency=16))
            await trio.sleep(0.5)
            assert upstreams[A].running.total() == 16
            await w.reload(ACCESS + model(concurrency=2))
            await trio.sleep(0.5)
            assert upstreams[A].running.total() == 2
            await w.reload(ACCESS + model(concurrency=64))
            batch = await w.until(owner, batch_id)
            assert (batch.completed, batch.cost_unknown) == (600, 0)

    async def test_an_upstream_replaced_while_requests_run_on_it(self, world, clock, upstreams):
        async with world(ACCESS + model(url=A)) as w:
            owner = await w.account()
            upstreams[A].behaviour = after(5)
            batch_id = await w.submit(owner, 24)
            await trio.sleep(1)
            await w.reload(ACCESS + model(url=B))
            batch = await w.until(owner, batch_id)
            assert (batch.completed, batch.cost_unknown) == (24, 0)
            assert (len(upstreams[A].asked), len(upstreams[B].asked)) == (8, 16)

    async def test_an_upstream_replaced_while_it_is_out(self, world, clock, upstreams):
        async with world(ACCESS + model(url=A)) as w:
            owner = await w.account()
            upstreams[A].behaviour = unreachable
            batch_id = await w.submit(owner, 24)
            await trio.sleep(10)
            began = trio.current_time()
            await w.reload(ACCESS + model(url=B))
            assert (await w.until(owner, batch_id)).completed == 24
            assert trio.current_time() - began < 3

    async def test_a_model_that_is_new_runs_at_once(self, world, clock, upstreams):
        async with world(ACCESS + model()) as w:
            owner = await w.account()
            await w.reload(ACCESS + model() + model("new", B))
            began = trio.current_time()
            assert (await w.until(owner, await w.submit(owner, 8, "new"))).completed == 8
            assert trio.current_time() - began < 0.5

    async def test_what_is_claimed_of_a_model_that_goes_fails_too(self, world, clock, upstreams):
        async with world(ACCESS + model(concurrency=16) + model("stays", B)) as w:
            owner = await w.account()
            upstreams[A].behaviour = after(0.001)  # so fast that a stock is held
            batch_id = await w.submit(owner, 9000)
            with trio.fail_after(1):
                # The stock is the pool's own affair: it tells nobody.
                while not w.scheduler.pools["m"].stock or not upstreams[A].asked:  # noqa: ASYNC110
                    await trio.sleep(0.0011)
            await w.reload(ACCESS + model("stays", B))
            batch = await w.until(owner, batch_id, seconds=60)
            assert batch.status == "completed"
            assert batch.failed > 0
            assert batch.completed + batch.failed == 9000
            found = await w.results(owner, batch_id)
            assert {result.failure.code for result in found if result.failure} == {"model_not_found"}

    async def test_a_tier_with_fewer_places(self, world, clock, upstreams):
        async with world(ACCESS + model(concurrency=100)) as w:
            owner = await w.account("pro")
            batch_id = await w.submit(owner, 200)
            await trio.sleep(1.05)
            assert upstreams[A].running.total() == 16
            await w.reload(ACCESS + "[tiers.pro]\nbatch_concurrency = 3\n" + model(concurrency=100))
            await trio.sleep(0.5)
            assert upstreams[A].running.total() == 3
            await w.store.write(accounts.set_account_tier, owner[0].id, "internal")
            assert (await w.until(owner, batch_id)).completed == 200

    async def test_a_price_counts_from_the_next_attempt_on(self, world, clock, upstreams):
        async with world(ACCESS + model(concurrency=1)) as w:
            owner = await w.account()
            batch_id = await w.submit(owner, 20)
            await trio.sleep(1.05)
            await w.reload(
                ACCESS
                + model(concurrency=1, drain=False).replace(
                    "[[models.upstreams]]",
                    'price_usd_per_million = { input = "1", output = "0" }\n[[models.upstreams]]',
                )
            )
            batch = await w.until(owner, batch_id)
            assert batch.cost == pytest.approx(10 * 10 * 10**6, rel=0.15)


async def test_large_bodies_run_as_many_at_once_as_memory_has_room_for_and_accounts_take_turns(
    world, clock, upstreams, monkeypatch
):
    text, size = "a" * 1000, 1080
    monkeypatch.setattr(demand, "HELD_BYTES", 10 * size)
    monkeypatch.setattr(claims, "CLAIM_BYTES", 4 * size)
    async with world(ACCESS + model(concurrency=100)) as w:
        batch_ids = [(owner, await w.submit(owner, 40, text=text)) for owner in (await w.account(), await w.account())]
        await trio.sleep(0.05)
        assert 9 <= upstreams[A].running.total() <= 14
        await trio.sleep(0.4)
        done = [(await w.batch(owner, batch_id)).completed for owner, batch_id in batch_ids]
        assert min(done) >= 10
        for owner, batch_id in batch_ids:
            assert (await w.until(owner, batch_id)).completed == 40
        assert upstreams[A].most <= 14
