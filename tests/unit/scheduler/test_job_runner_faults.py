"""The runner of durable jobs through faults of the store: no job stays leased to a daemon that does not know of it."""

from types import SimpleNamespace

import pytest
import structlog
import trio

from fibatchd.errors import StoreUnavailable
from fibatchd.scheduler.jobs import JobRunner
from fibatchd.store import jobs
from fibatchd.store.jobs import Job

OUTAGE_S = 3600.0


class Store:
    """Holds one job. Away until `back_at`; `broken` is raised, once, where a job is taken."""

    def __init__(self):
        self.back_at = 0.0
        self.broken = None
        self.lease = None
        self.taken = 0
        self.calls = []

    async def write(self, script, *args):
        await trio.lowlevel.checkpoint()
        self.calls.append(script.__name__)
        if trio.current_time() < self.back_at:
            raise StoreUnavailable("away")
        if script is jobs.take and self.broken is not None:
            broken, self.broken = self.broken, None
            raise broken
        if script is jobs.take and self.lease is None:
            self.lease = 1
            self.taken += 1
            return Job("job_1", "kind", "subject", self.taken, 1)
        if script is jobs.give_back and not args[2]:
            self.lease = None
        if script.__name__ == "_postpone":
            self.lease = None
        return None

    def listen(self, channel):
        return Silence()


class Silence:
    """Nobody tells anything."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    def __aiter__(self):
        return self

    async def __anext__(self):
        await trio.sleep_forever()


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def context(store):
    return SimpleNamespace(store=store, daemon=lambda: 1)


async def test_a_long_outage_after_a_failure(store, context, nursery, autojump_clock):
    again = trio.Event()

    async def handler(_, job):
        if job.attempts > 1:
            again.set()
            await trio.sleep_forever()
        store.back_at = trio.current_time() + OUTAGE_S
        raise StoreUnavailable("away")

    await nursery.start(JobRunner(context, "kind", handler).run)
    with trio.fail_after(OUTAGE_S + 10):
        await again.wait()
    tries = store.calls.count("_postpone")
    assert OUTAGE_S / 10 < tries <= OUTAGE_S + 1, "once a second: neither given up nor in a busy loop"


async def test_a_runner_that_crashed_takes_its_jobs_again(store, context, autojump_clock):
    begun = trio.Event()

    async def handler(_, job):
        begun.set()
        store.broken = RuntimeError("a fault of ours")
        await trio.sleep_forever()

    runner = JobRunner(context, "kind", handler, at_once=2)
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        await runner.run()
    assert (begun.is_set(), store.taken, store.lease) == (True, 1, 1)
    with trio.move_on_after(60):
        await runner.run()
    assert store.taken == 2


@pytest.mark.parametrize(
    ("fault", "level", "event"),
    [(StoreUnavailable("away"), "warning", "job waits for the store"), (RuntimeError("ours"), "error", "job failed")],
)
async def test_only_a_fault_of_the_job_itself_is_an_error(store, context, nursery, autojump_clock, fault, level, event):
    again = trio.Event()

    async def handler(_, job):
        if job.attempts > 1:
            again.set()
            await trio.sleep_forever()
        raise fault

    with structlog.testing.capture_logs() as lines:
        await nursery.start(JobRunner(context, "kind", handler).run)
        await again.wait()
    assert [(line["log_level"], line["event"], line["retry_in"]) for line in lines] == [(level, event, 2.0)]
