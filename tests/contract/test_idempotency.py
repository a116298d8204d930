"""Submitting safely twice: one key, one batch, whatever happens between the two calls."""

import trio
from scenario import DAY, claim, create, daemon, delete, owner, pass_time, purge_all, report, succeeded, sweep

from fibatchd.store import admission
from fibatchd.store.admission import IdempotencyKey, Limits, OverLimit, Replay
from fibatchd.store.interface import Query

KEY = IdempotencyKey("job-7", "/v1/batches", b"\x01" * 32)
OTHER = IdempotencyKey("job-7", "/v1/batches", b"\x02" * 32)
ELSEWHERE = IdempotencyKey("job-7", "/v1/messages/batches", b"\x01" * 32)


async def replay(store, who, key=KEY):
    return await store.read(admission.replay, who.account.id, key)


async def finish(store, batch):
    worker = await daemon(store)
    await report(store, *[succeeded(c) for c in await claim(store, worker) if c.batch_id == batch.id])


async def test_a_new_key_is_unknown(store):
    assert await replay(store, await owner(store)) is None


async def test_the_same_request_returns_the_batch_as_it_is_now(store):
    ada = await owner(store)
    batch = await create(store, ada, key=KEY)
    assert await replay(store, ada) == Replay(True, batch)
    assert await create(store, ada, key=KEY) == Replay(True, batch)
    await finish(store, batch)
    assert (await replay(store, ada)).batch.status == "completed"


async def test_another_body_or_route_is_not_the_same(store):
    ada = await owner(store)
    batch = await create(store, ada, key=KEY)
    assert await replay(store, ada, OTHER) == Replay(False, batch)
    assert await create(store, ada, key=OTHER) == Replay(False, batch)
    assert await replay(store, ada, ELSEWHERE) == Replay(False, batch)


async def test_a_key_belongs_to_its_account(store):
    ada, eve = await owner(store, "ada"), await owner(store, "eve")
    await create(store, ada, key=KEY)
    assert await replay(store, eve) is None
    assert (await create(store, eve, key=OTHER)).account_id == eve.account.id


async def test_a_refused_create_does_not_use_its_key_up(store):
    ada = await owner(store)
    assert await create(store, ada, key=KEY, limits=Limits(10, 2)) == OverLimit("requests", 2)
    assert await replay(store, ada) is None
    assert (await create(store, ada, ["m"], key=OTHER)).total == 1


async def test_a_repetition_is_answered_at_the_limit_too(store):
    ada, limits = await owner(store), Limits(1, 100)
    batch = await create(store, ada, key=KEY, limits=limits)
    assert await create(store, ada, key=KEY, limits=limits) == Replay(True, batch)
    assert await create(store, ada, limits=limits) == OverLimit("batches", 1)


async def test_first_calls_that_race_make_one_batch(store):
    ada, answers = await owner(store), []

    async def call():
        answers.append(await create(store, ada, key=KEY))

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(call)
    ids = {answer.batch.id if isinstance(answer, Replay) else answer.id for answer in answers}
    assert len(ids) == 1
    assert sum(not isinstance(answer, Replay) for answer in answers) == 1


async def test_a_deleted_batch_stays_known_as_deleted(store, clock):
    """Deleted before it ended: its key is remembered until a day after the deletion."""
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, key=KEY)
    assert await delete(store, ada, batch.id)
    assert await replay(store, ada) == Replay(True, None)
    await purge_all(store, worker)
    assert await create(store, ada, key=OTHER) == Replay(False, None)
    clock.advance(DAY - 1)
    assert await replay(store, ada) == Replay(True, None)
    clock.advance(1)
    assert await replay(store, ada) is None


async def test_a_key_is_forgotten_a_day_after_its_batch_ended_and_not_before(store, clock):
    ada = await owner(store)
    batch = await create(store, ada, key=KEY, window_s=5 * DAY)
    await pass_time(store, clock, 2 * DAY)
    await sweep(store)
    await finish(store, batch)
    clock.advance(DAY - 1)
    await sweep(store)
    assert (await create(store, ada, key=KEY)).batch.id == batch.id
    clock.advance(1)
    second = await create(store, ada, key=KEY)  # before any sweep has come by
    assert second.id != batch.id
    assert (await replay(store, ada)).batch.id == second.id


async def test_deleting_an_ended_batch_does_not_make_its_key_live_longer(store, clock):
    ada = await owner(store)
    batch = await create(store, ada, key=KEY)
    await finish(store, batch)
    clock.advance(DAY - 10)
    assert await delete(store, ada, batch.id)
    clock.advance(10)
    assert await replay(store, ada) is None


async def test_forgotten_keys_are_removed(store, clock):
    ada = await owner(store)
    await create(store, ada, refused=3, key=KEY)
    live = await create(store, ada, key=IdempotencyKey("job-8", "/v1/batches", b"\x03" * 32))
    clock.advance(DAY)
    await sweep(store)

    def keys():
        return (yield Query("SELECT key, batch_id FROM idempotency"))

    assert await store.read(keys) == [("job-8", live.id)]
