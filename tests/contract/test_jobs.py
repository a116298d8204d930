"""Background jobs: done once, by whoever takes them first, when they are due."""

import pytest
import trio
from scenario import daemon, pass_time, take_over

from fibatchd.errors import LeaseLost
from fibatchd.store import jobs
from fibatchd.store.interface import Query


async def enqueue(store, clock, subject="s", kind="k", delay=0.0, **how):
    await store.write(jobs.enqueue, kind, subject, clock.now + delay, **how)


async def test_a_job_is_taken_once(store, clock):
    worker = await daemon(store)
    await enqueue(store, clock)
    job = await store.write(jobs.take, "k", worker)
    assert (job.kind, job.subject, job.attempts, job.lease) == ("k", "s", 1, worker)
    assert await store.write(jobs.take, "k", worker) is None
    await store.write(jobs.done, job)
    assert await store.write(jobs.holds, job) is False


async def test_each_job_is_taken_by_one_of_many(store, clock):
    one, two = await daemon(store, "one"), await daemon(store, "two")
    for index in range(20):
        await enqueue(store, clock, f"s{index}")
    taken = []

    async def work(who):
        while job := await store.write(jobs.take, "k", who):
            taken.append(job)

    async with trio.open_nursery() as nursery:
        for who in (one, two, one, two):
            nursery.start_soon(work, who)
    assert sorted(job.subject for job in taken) == sorted(f"s{index}" for index in range(20))


async def test_jobs_come_when_they_are_due_in_that_order_and_by_kind(store, clock):
    worker = await daemon(store)
    await enqueue(store, clock, "late", delay=20)
    await enqueue(store, clock, "soon", delay=10)
    await enqueue(store, clock, "other", kind="j")
    assert await store.write(jobs.take, "k", worker) is None
    await pass_time(store, clock, 20)
    assert [(await store.write(jobs.take, "k", worker)).subject for _ in range(2)] == ["soon", "late"]
    assert (await store.write(jobs.take, "j", worker)).subject == "other"


async def test_a_postponed_job_comes_again_with_its_attempts(store, clock):
    worker = await daemon(store)
    await enqueue(store, clock)
    job = await store.write(jobs.take, "k", worker)
    await store.write(jobs.postpone, job, clock.now + 5)
    assert await store.write(jobs.take, "k", worker) is None
    await pass_time(store, clock, 5)
    again = await store.write(jobs.take, "k", worker)
    assert (again.id, again.attempts) == (job.id, 2)


async def test_a_unique_job_is_not_added_beside_its_like(store, clock):
    await enqueue(store, clock, unique=True)
    await enqueue(store, clock, unique=True)
    await enqueue(store, clock, "t", unique=True)
    await enqueue(store, clock, kind="j", unique=True)

    def all_jobs():
        return (yield Query("SELECT kind, subject FROM jobs ORDER BY kind, subject"))

    assert await store.read(all_jobs) == [("j", "s"), ("k", "s"), ("k", "t")]
    await enqueue(store, clock)
    assert len(await store.read(all_jobs)) == 4


async def test_a_lost_daemon_takes_no_job(store, clock):
    """It would keep it for ever: nobody takes over a second time from a daemon that is forgotten."""
    gone = await daemon(store)
    await enqueue(store, clock)
    await take_over(store, gone)
    with pytest.raises(LeaseLost):
        await store.write(jobs.take, "k", gone)
    assert await store.write(jobs.take, "k", await daemon(store)) is not None


async def test_listeners_hear_of_a_new_job(store, clock):
    async with store.listen("jobs") as heard:
        await enqueue(store, clock)
        with trio.fail_after(10):
            assert await heard.__anext__() == "k"
