"""The runner of durable jobs, on a real store."""

from types import SimpleNamespace

import pytest
import trio
from scenario import daemon

from fibatchd.scheduler.jobs import JobRunner
from fibatchd.store import jobs
from fibatchd.store.interface import NOW


def enqueue(subject):
    ((now,),) = yield NOW
    yield from jobs.enqueue("kind", subject, now)


@pytest.fixture
def context(store):
    return SimpleNamespace(store=store, daemon=lambda: 0)


async def test_a_runner_that_starts_before_its_daemon_waits_for_it(store, context, nursery):
    done = trio.Event()

    async def handler(_, job):
        await store.write(jobs.done, job)
        done.set()

    await store.write(enqueue, "early")
    await nursery.start(JobRunner(context, "kind", handler).run)
    await trio.testing.wait_all_tasks_blocked()
    assert not done.is_set()
    one = await daemon(store)
    context.daemon = lambda: one
    with trio.fail_after(10):
        await done.wait()
