"""A batch's life as time goes on: windows, quotas, owners, access, retention, models that go."""

import datetime

import pytest
import trio

from fibatchd.scheduler.pools import Scheduler
from fibatchd.store import accounts, admission, batches, spending

ECHO = """
[batches]
create_tiers = ["internal", "pro"]
retry_base_s = 0.1
retry_cap_s = 1
retention_s = 40
{batches}
[tiers.pro]
batch_concurrency = 16
daily_quota_usd = "{quota}"
[[models]]
id = "m"
concurrency = {concurrency}
price_usd_per_million = {{ input = "1000", output = "0" }}
{model}
[[models.upstreams]]
url = "echo:"
delay_s = {delay}
"""


def echo(*, concurrency=4, delay=1.0, quota="1000", model="", batches=""):
    return ECHO.format(concurrency=concurrency, delay=delay, quota=quota, model=model, batches=batches)


def utc(*when: int) -> float:
    return datetime.datetime(*when, tzinfo=datetime.UTC).timestamp()


async def test_a_batch_runs_through(world, clock):
    async with world(echo()) as w:
        owner = await w.account()
        batch = await w.until(owner, await w.submit(owner, 10))
        assert (batch.status, batch.completed, batch.queued, batch.running) == ("completed", 10, 0, 0)
        assert batch.in_progress_at is not None
        assert batch.completed_at - batch.in_progress_at == pytest.approx(3, abs=0.5)
        found = await w.results(owner, batch.id)
        assert [result.status for result in found] == ["completed"] * 10
        assert all(f"say {n}".encode() in result.body for n, result in enumerate(found))


async def test_a_quota_spent_before_midnight_pauses_it_until_midnight(world, clock):
    # "say 0" is two words: each request costs 0.002, so five of them reach the quota.
    async with world(echo(quota="0.01", concurrency=1), epoch=utc(2026, 11, 29, 23, 59, 50)) as w:
        owner = await w.account("pro")
        batch_id = await w.submit(owner, 8)
        await trio.sleep(8)
        paused = await w.batch(owner, batch_id)
        assert (paused.status, paused.completed, paused.running) == ("in_progress", 5, 0)
        await trio.sleep(1.5)
        assert (await w.batch(owner, batch_id)).completed == 5
        batch = await w.until(owner, batch_id)
        assert (batch.status, batch.completed) == ("completed", 8)
        assert batch.completed_at >= utc(2026, 11, 30)
        assert batch.completed_at < utc(2026, 11, 30, 0, 0, 10)
        assert (await w.store.read(spending.spent_today, owner[0].id))[0] == 3 * 2 * 10**9


async def test_what_is_in_flight_when_the_quota_is_reached_finishes(world, clock):
    async with world(echo(quota="0.002", concurrency=4), epoch=utc(2026, 11, 29, 12)) as w:
        owner = await w.account("pro")
        batch_id = await w.submit(owner, 10)
        await trio.sleep(10)
        assert (await w.batch(owner, batch_id)).completed == 4


@pytest.mark.parametrize("how", ["revoked", "suspended", "deleted", "expired"])
async def test_a_batch_whose_owner_is_no_longer_valid_fails(world, clock, how):
    async with world(echo(concurrency=2)) as w:
        account, key = await w.account()
        if how == "expired":
            key, _ = await w.store.write(accounts.create_key, account.id, expires_in=2.5)
        owner = account, key
        batch_id = await w.submit(owner, 50)
        await trio.sleep(2.5)
        if how != "expired":
            await w.withdraw(owner, how)
        batch = await w.until(owner, batch_id)
        if how == "deleted":
            await trio.sleep(5)  # it ends first, then it is erased
            assert await w.batch(owner, batch_id) is None
            return
        assert (batch.status, batch.error_code) == ("failed", "owner_unauthorized")
        assert batch.completed + batch.failed == 50
        assert batch.completed >= 4, "what ran finished"
        found = await w.results(owner, batch_id)
        assert {result.failure.code for result in found if result.status == "failed"} == {"batch_failed"}


async def test_without_access_it_waits_and_with_it_goes_on(world, clock):
    async with world(echo(concurrency=2)) as w:
        owner = await w.account("pro")
        batch_id = await w.submit(owner, 20)
        await trio.sleep(2.5)
        await w.store.write(accounts.set_account_tier, owner[0].id, "free")
        await trio.sleep(5)
        waiting = await w.batch(owner, batch_id)
        assert (waiting.status, waiting.running) == ("in_progress", 0)
        await trio.sleep(10)
        assert (await w.batch(owner, batch_id)).completed == waiting.completed
        await w.store.write(accounts.set_account_tier, owner[0].id, "internal")
        assert (await w.until(owner, batch_id)).completed == 20


async def test_a_window_that_closes_stops_requests_from_starting(world, clock):
    async with world(echo(concurrency=2, delay=10)) as w:
        owner = await w.account()
        batch_id = await w.submit(owner, 10, window_s=25)
        batch = await w.until(owner, batch_id)
        assert batch.status == "expired"
        assert (batch.completed, batch.expired) == (6, 4), "those that ran when it closed finished"
        assert batch.expired_at == pytest.approx(batch.created_at + 30, abs=1)
        found = await w.results(owner, batch_id)
        assert [result.status for result in found] == ["completed"] * 6 + ["expired"] * 4
        assert found[-1].failure.code == "batch_expired"


async def test_a_finished_batch_is_deleted_when_its_retention_is_over(world, clock):
    async with world(echo()) as w:
        owner = await w.account()
        batch = await w.until(owner, await w.submit(owner, 3))
        assert batch.delete_at == pytest.approx(batch.completed_at + 40)
        await trio.sleep(38)
        assert await w.batch(owner, batch.id) is not None
        await trio.sleep(5)
        assert await w.batch(owner, batch.id) is None


async def test_cancelling_stops_what_has_not_started(world, clock):
    async with world(echo(concurrency=2, delay=5)) as w:
        owner = await w.account()
        batch_id = await w.submit(owner, 10)
        await trio.sleep(1)
        cancelled = await w.store.write(batches.cancel, owner[0].id, batch_id, "batches", w.context.policy)
        assert cancelled.status == "cancelling"
        batch = await w.until(owner, batch_id)
        assert (batch.status, batch.completed, batch.cancelled) == ("cancelled", 2, 8)


async def test_requests_of_a_model_that_goes_fail_and_others_go_on(world, clock):
    two = (
        echo(concurrency=2)
        + '[[models]]\nid = "other"\nconcurrency = 2\n[[models.upstreams]]\nurl = "echo:"\ndelay_s = 1\n'
    )
    async with world(two) as w:
        owner = await w.account()
        gone, stays = await w.submit(owner, 20, "other"), await w.submit(owner, 20)
        await trio.sleep(2.5)
        await w.reload(echo(concurrency=2))
        batch = await w.until(owner, gone)
        assert batch.status == "completed"
        assert batch.failed >= 14
        found = await w.results(owner, gone)
        assert {result.failure.code for result in found if result.failure} == {"model_not_found"}
        assert (await w.until(owner, stays)).completed == 20


async def test_a_drained_model_makes_its_requests_wait(world, clock):
    async with world(echo(concurrency=2)) as w:
        owner = await w.account()
        batch_id = await w.submit(owner, 20)
        await trio.sleep(2.5)
        await w.reload(echo(concurrency=2, model="drain = true"))
        await trio.sleep(30)
        waiting = await w.batch(owner, batch_id)
        assert waiting.running == 0
        assert waiting.completed < 10
        await w.reload(echo(concurrency=2))
        assert (await w.until(owner, batch_id)).completed == 20


async def test_a_batch_given_up_before_it_was_published_is_swept_away(world, clock, monkeypatch):
    monkeypatch.setattr("fibatchd.scheduler.sweeper.STAGING_MAX_S", 10)
    async with world(echo()) as w:
        account, key = await w.account()
        new = admission.NewBatch("batch_x", "batches", "inline", account.id, key.id, "/v1/chat/completions", 60)
        await w.store.write(admission.insert, new, "staging")
        await trio.sleep(70)
        rows = await w.store.read(count_batches)
        assert rows == 0


def count_batches():
    from fibatchd.store.interface import Query

    ((count,),) = yield Query("SELECT COUNT(*) FROM batches")
    return count


async def test_told_to_stop_while_it_still_starts(world, clock, monkeypatch):
    """A signal may come at any time: what runs then has its time all the same, and no more than that."""
    running = Scheduler.running

    def told_before(scheduler):
        scheduler.refresh()
        scheduler.drain(3)
        return running(scheduler)

    monkeypatch.setattr(Scheduler, "running", told_before)
    async with world(echo(delay=60)) as w:
        owner = await w.account()
        batch_id = await w.submit(owner, 4)
        await trio.sleep(2)
        assert (await w.batch(owner, batch_id)).running == 4
        await trio.sleep(2)
        cut = await w.batch(owner, batch_id)
        assert (cut.running, cut.cost_unknown) == (0, 4)


@pytest.mark.parametrize("seconds", [0, 60])
async def test_told_to_stop_while_its_parts_start(world, clock, monkeypatch, seconds):
    start = Scheduler._start_claiming

    async def told(scheduler, nursery):
        scheduler.drain(seconds)
        await start(scheduler, nursery)

    monkeypatch.setattr(Scheduler, "_start_claiming", told)
    async with world(echo(delay=60)) as w:
        assert w.scheduler.pools
