"""Upstreams that are gone, limit us, or lose what we send: who waits, who spends attempts, who is left in peace."""

import pytest
import structlog
import trio
from scripted import after, refusing, success, unreachable

from fibatchd.errors import ConnectionLost
from fibatchd.scheduler.attempt import STOPPED
from fibatchd.store import claims
from fibatchd.store.interface import Query

A, B = "http://a/v1", "http://b/v1"
HEAD = "[batches]\nretry_base_s = 0.1\nretry_cap_s = 1\n"


def model(name, *urls, concurrency=4, endpoints='["/v1/chat/completions"]', **upstream):
    text = f'[[models]]\nid = "{name}"\nconcurrency = {concurrency}\nendpoints = {endpoints}\n'
    for url in urls:
        text += f'[[models.upstreams]]\nurl = "{url}"\n'
        text += "".join(f"{key} = {value}\n" for key, value in upstream.items())
    return text


def attempts_of(batch_id):
    rows = yield Query(
        "SELECT r.attempts FROM requests r JOIN lanes l ON l.id = r.lane WHERE l.batch_id = ?", (batch_id,)
    )
    return [count for (count,) in rows]


def messages_of(batch_id):
    rows = yield Query(
        "SELECT r.error_message FROM requests r JOIN lanes l ON l.id = r.lane WHERE l.batch_id = ?", (batch_id,)
    )
    return [message for (message,) in rows]


@pytest.fixture
def claimed(monkeypatch):
    """How many requests each claim took."""
    counts = []
    real = claims.claim

    def counting(*args):
        claim = yield from real(*args)
        counts.append(len(claim.requests))
        return claim

    monkeypatch.setattr(claims, "claim", counting)
    return counts


async def test_an_outage_spends_no_attempts_and_is_probed_at_doubling_waits(world, clock, upstreams):
    async with world(HEAD + model("m", A) + model("other", B)) as w:
        owner = await w.account()
        upstreams[A].behaviour = unreachable
        began = trio.current_time()
        out, fine = await w.submit(owner, 20), await w.submit(owner, 200, "other")
        with structlog.testing.capture_logs() as logged:
            await trio.sleep(40)
            assert (await w.batch(owner, fine)).completed == 200, "the other model is undisturbed"
            waiting = await w.batch(owner, out)
            assert (waiting.queued, waiting.running, waiting.failed) == (20, 0, 0)
            probes = [at - began for at, _ in upstreams[A].asked if at - began > 0.5]
            assert probes == pytest.approx([1, 3, 7, 15, 31], abs=0.5)
            upstreams[A].behaviour = after(0.1)
            batch = await w.until(owner, out)
        assert (batch.completed, batch.cost_unknown) == (20, 0)
        assert set(await w.store.read(attempts_of, out)) == {1}
        assert batch.completed_at - w.epoch - began == pytest.approx(61.5, abs=2)
        told = [line["event"] for line in logged if line.get("upstream") == A]
        assert told == ["an upstream is out", "an upstream is back"]


async def test_one_of_two_dies_and_comes_back_by_a_probe(world, clock, upstreams):
    async with world(HEAD + model("m", A, B, concurrency=8)) as w:
        owner = await w.account()
        batch_id = await w.submit(owner, 1000)
        await trio.sleep(3)
        assert len(upstreams[A].asked) == pytest.approx(len(upstreams[B].asked), rel=0.3)
        upstreams[A].behaviour = unreachable
        died = trio.current_time()
        await trio.sleep(2)
        assert len(upstreams[B].between(died + 1, died + 2)) > 60, "all eight places are on the other one"
        upstreams[A].behaviour = after(0.1)
        await trio.sleep(4)
        probe = next(at for at, _ in upstreams[A].asked if at > died + 2)
        assert probe == pytest.approx(died + 3, abs=0.3)
        assert len(upstreams[A].between(probe + 1, probe + 2)) > 30, "it has its share again"
        batch = await w.until(owner, batch_id)
        assert (batch.completed, batch.cost_unknown) == (1000, 0)
        assert set(await w.store.read(attempts_of, batch_id)) == {1}


@pytest.mark.parametrize("count", [4, 5000])
async def test_what_only_an_upstream_that_is_out_can_take_does_not_go_round_in_circles(
    world, clock, upstreams, claimed, count
):
    both = '["/v1/chat/completions", "/v1/embeddings"]'
    text = HEAD + model("m", A, endpoints=both)
    text += f'[[models.upstreams]]\nurl = "{B}"\nendpoints = ["/v1/embeddings"]\n'
    async with world(text) as w:
        owner = await w.account()
        upstreams[A].behaviour = unreachable
        batch_id = await w.submit(owner, count)
        await trio.sleep(20)
        assert sum(claimed) < 20 * 2 * 64
        assert len(claimed) < 20 * (4 if count == 4 else 64)
        assert upstreams[B].asked == []
        upstreams[A].behaviour = after(0.01)
        assert (await w.until(owner, batch_id)).completed == count


async def test_a_429_with_retry_after_pauses_the_upstream_for_all(world, clock, upstreams, claimed):
    async with world(HEAD + model("m", A, concurrency=4)) as w:
        owner = await w.account()
        upstreams[A].behaviour = refusing(429, retry_after="30")
        first = await w.submit(owner, 30)
        await trio.sleep(1)
        second = await w.submit(owner, 30)
        paused = trio.current_time() - 1
        await trio.sleep(10)
        upstreams[A].behaviour = after(0.1)
        asked = len(upstreams[A].asked)
        assert asked == 4, f"more than those that were on their way when it said so: {upstreams[A].asked}"
        await trio.sleep(18.5)
        assert len(upstreams[A].asked) == asked
        batches = [await w.until(owner, batch_id) for batch_id in (first, second)]
        assert upstreams[A].asked[asked][0] - paused == pytest.approx(30, abs=0.5)
        assert [batch.completed for batch in batches] == [30, 30]
        spent = await w.store.read(attempts_of, first) + await w.store.read(attempts_of, second)
        assert sorted(spent) == [1] * 56 + [2] * 4
        assert sum(batch.cost_unknown for batch in batches) == 0
        assert sum(claimed) == 64, "and none was claimed to be given back"


async def test_a_429_without_retry_after_is_an_attempt_like_any(world, clock, upstreams):
    async with world(HEAD + "max_attempts = 3\n" + model("m", A)) as w:
        owner = await w.account()
        upstreams[A].behaviour = refusing(429)
        batch = await w.until(owner, await w.submit(owner, 5))
        assert (batch.status, batch.failed, batch.cost_unknown) == ("completed", 5, 0)
        assert len(upstreams[A].asked) == 15
        assert {result.failure.code for result in await w.results(owner, batch.id)} == {"rate_limited"}


async def test_lost_connections_take_it_out_and_each_has_spent_an_attempt(world, clock, upstreams):
    async def lost(_prompt):
        raise ConnectionLost("reset")

    async with world(HEAD + model("m", A, concurrency=2)) as w:
        owner = await w.account()
        upstreams[A].behaviour = lost
        batch_id = await w.submit(owner, 10)
        began = trio.current_time()
        await trio.sleep(0.9)
        assert 5 <= len(upstreams[A].asked) <= 6
        await trio.sleep(5)
        probes = [at - began for at, _ in upstreams[A].asked[-2:]]
        assert probes == pytest.approx([1, 3], abs=0.9)
        upstreams[A].behaviour = after(0.1)
        batch = await w.until(owner, batch_id)
        lost_attempts = sum(await w.store.read(attempts_of, batch_id)) - 10
        assert (batch.completed, batch.cost_unknown) == (10, lost_attempts)
        assert lost_attempts == 7 or lost_attempts == 8


async def test_a_refused_key_is_logged_once_a_minute(world, clock, upstreams):
    async with world(HEAD + "max_attempts = 100\n" + model("m", A)) as w:
        owner = await w.account()
        upstreams[A].behaviour = refusing(401)
        await w.submit(owner, 10)
        with structlog.testing.capture_logs() as logged:
            await trio.sleep(130)
        told = [line for line in logged if line["event"] == "an upstream refuses our key"]
        assert len(told) == 3
        assert len(upstreams[A].asked) > 8


async def test_a_pace_in_tokens_claims_no_more_than_may_start(world, clock, upstreams, claimed):
    async with world(HEAD + model("m", A, concurrency=64, tokens_per_minute=1500)) as w:
        owner = await w.account()
        upstreams[A].behaviour = after(0.01)
        began = trio.current_time()
        batch = await w.until(owner, await w.submit(owner, 100))
        # 15 tokens each: a hundred a minute, less what a second's burst lets through at once.
        assert trio.current_time() - began == pytest.approx(59, abs=6)
        assert batch.completed == 100
        assert sum(claimed) < 150


async def test_an_attempt_that_is_cut_in_several_tasks_at_once_is_accounted_for(world, clock, upstreams):
    """As while a large body is being sent: Cancelled comes in a group then."""

    async def in_two_tasks(_prompt):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)
        return success()

    async with world(HEAD + model("m", A)) as w:
        owner = await w.account()
        upstreams[A].behaviour = in_two_tasks
        batch_id = await w.submit(owner, 4)
        await trio.sleep(1)
    async with world(HEAD + model("m", A)) as w:
        assert await w.store.read(messages_of, batch_id) == [STOPPED.message] * 4, "recorded by who cut them"
        upstreams[A].behaviour = after(0.1)
        batch = await w.until(owner, batch_id)
        assert (batch.completed, batch.cost_unknown) == (4, 4)
