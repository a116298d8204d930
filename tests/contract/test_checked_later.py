"""Batches whose input is checked after they were created: opened whole, refused, or taken back and begun anew."""

from collections import Counter

import scenario
from scenario import POLICY

from fibatchd.domain import states
from fibatchd.store import accounts, admission, batches, ending, jobs, leases
from fibatchd.store.interface import NOW, Query


async def rows(store, sql):
    def select():
        return (yield Query(sql))

    return await store.read(select)


async def validating(store, models=("m", "m", "m")):
    who = await scenario.owner(store)
    reserved = await scenario.upload(store, who, models)
    return who, reserved


async def test_a_checked_batch_opens_in_progress_with_its_model(store, clock):
    who, reserved = await validating(store)
    clock.advance(5)
    counts = Counter({"m": 3})
    assert await store.write(admission.open_batch, reserved, counts, 0, 3, status=states.IN_PROGRESS, model="m")
    batch = await scenario.get(store, who, reserved.batch_id)
    assert (batch.status, batch.in_progress_at, batch.model, batch.total) == ("in_progress", clock.now, "m", 3)
    one = await scenario.daemon(store)
    claimed = await scenario.claim(store, one)
    assert len(claimed) == 3
    assert (await scenario.get(store, who, reserved.batch_id)).in_progress_at == clock.now
    await scenario.report(store, *map(scenario.succeeded, claimed))
    assert (await scenario.get(store, who, reserved.batch_id)).status == "finalizing"


async def test_a_refused_batch_has_failed_and_never_runs(store):
    who, reserved = await validating(store)
    ended = []

    def hook(batch):
        ended.append((batch.id, batch.status, batch.errors))
        return
        yield

    policy = ending.Policy(POLICY.retention_s, POLICY.idempotency_retention_s, on_end=(hook,))
    await store.write(ending.refuse, reserved.batch_id, '{"data": []}', policy)
    batch = await scenario.get(store, who, reserved.batch_id)
    assert (batch.status, batch.errors, batch.error_code, batch.total) == ("failed", '{"data": []}', None, 0)
    assert ended == [(batch.id, "failed", '{"data": []}')]
    assert not await scenario.prepare(store, reserved)
    assert await scenario.claim(store, await scenario.daemon(store)) == []
    await store.write(ending.refuse, reserved.batch_id, "{}", policy)
    assert await scenario.get(store, who, reserved.batch_id) == batch, "the first end stands"


async def test_a_batch_that_runs_or_was_cancelled_is_not_refused(store):
    who, reserved = await validating(store)
    assert await scenario.prepare(store, reserved)
    await store.write(ending.refuse, reserved.batch_id, "{}", POLICY)
    assert (await scenario.get(store, who, reserved.batch_id)).errors is None
    other = await scenario.upload(store, who)
    await scenario.cancel(store, who, other.batch_id)
    await store.write(ending.refuse, other.batch_id, "{}", POLICY)
    assert (await scenario.get(store, who, other.batch_id)).status == "cancelled"


async def test_what_was_appended_is_retracted_and_appended_anew(store, monkeypatch):
    monkeypatch.setattr("fibatchd.store.admission.REMOVE_CHUNK", 2)
    _, reserved = await validating(store)
    steps = 0
    while await store.write(admission.retract, reserved.batch_id):
        steps += 1
    assert steps == 2
    assert await rows(store, "SELECT number FROM requests") == []
    assert await rows(store, "SELECT number FROM request_bodies") == []
    again = await store.write(admission.reserve, reserved.batch_id, ["m"], 2)
    assert again.first > reserved.first
    assert await store.write(admission.append, again, 0, scenario.requests_for(["m", "m"]))
    assert await store.write(admission.open_batch, again, Counter({"m": 2}), 0, 2)
    assert len(await scenario.claim(store, await scenario.daemon(store))) == 2


async def test_an_open_batch_keeps_all_it_has(store):
    _, reserved = await validating(store)
    assert await store.read(admission.is_unopened, reserved.batch_id)
    assert await scenario.prepare(store, reserved)
    assert not await store.read(admission.is_unopened, reserved.batch_id)
    assert not await store.write(admission.retract, reserved.batch_id)
    assert len(await rows(store, "SELECT number FROM requests")) == 3


async def test_a_closed_batch_is_not_unopened_and_can_be_retracted(store):
    who, reserved = await validating(store)
    await scenario.cancel(store, who, reserved.batch_id)
    assert not await store.read(admission.is_unopened, reserved.batch_id)
    while await store.write(admission.retract, reserved.batch_id):
        pass
    assert await rows(store, "SELECT number FROM requests") == []


async def test_retracting_what_never_was(store):
    assert not await store.write(admission.retract, "batch_unknown")
    who = await scenario.owner(store)
    new = scenario.new_batch(who, finalizer=scenario.FINALIZER)
    await store.write(admission.insert, new, "validating")
    assert not await store.write(admission.retract, new.id)


async def test_the_files_named_at_the_end(store):
    who, reserved = await validating(store, ["m"])
    await scenario.prepare(store, reserved, ["m"])
    one = await scenario.daemon(store)
    await scenario.report(store, *map(scenario.succeeded, await scenario.claim(store, one)))

    def end(job):
        ((now,),) = yield NOW
        batch = yield from batches.lock(job.subject)
        yield from ending.name_files(batch.id, "file-1", None)
        yield from ending.end(batch, POLICY, now)
        yield from jobs.done(job)

    await store.write(end, await store.write(jobs.take, scenario.FINALIZER, one))
    batch = await scenario.get(store, who, reserved.batch_id)
    assert (batch.status, batch.output_file_id, batch.error_file_id) == ("completed", "file-1", None)


async def test_the_jobs_of_a_daemon_that_stopped_are_free(store):
    one, two = await scenario.daemon(store), await scenario.daemon(store, "two")

    def enqueue():
        ((now,),) = yield NOW
        yield from jobs.enqueue("kind", "subject", now)

    await store.write(enqueue)
    held = await store.write(jobs.take, "kind", one)
    assert await store.write(jobs.take, "kind", two) is None
    await store.write(leases.forget, one)
    taken = await store.write(jobs.take, "kind", two)
    assert (taken.id, taken.attempts) == (held.id, 2)
    assert not await store.write(jobs.holds, held)


async def test_a_key_by_its_id(store):
    who = await scenario.owner(store, models=["m"])
    assert await store.read(accounts.get_key, who.key.id) == who.key
    assert await store.read(accounts.get_key, "key_unknown") is None
