"""A claim is stored and its answer is lost: what it took, and nobody knows of, runs all the same, its attempt not counted twice."""

import contextlib
import itertools
import time

import pytest
import trio

from fibatchd import config
from fibatchd.context import Context
from fibatchd.domain.requests import NewRequest
from fibatchd.errors import StoreUncertain
from fibatchd.ids import new_id
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.endpoint import Endpoints
from fibatchd.inference.execute import Executor
from fibatchd.inference.load import Load
from fibatchd.scheduler import jobs as runner
from fibatchd.scheduler.pools import Scheduler
from fibatchd.store import accounts, admission, batches, claims, jobs, leases, migrate
from fibatchd.store.interface import Query
from fibatchd.store.opening import open_store
from fibatchd.upstream.fleet import Fleet

CONFIG = """
[[models]]
id = "m"
concurrency = 8
[[models.upstreams]]
url = "echo:"
delay_s = 0.05
[[models]]
id = "n"
concurrency = 8
[[models.upstreams]]
url = "echo:"
delay_s = 0.05
"""


class Forgetful:
    """A store that does what it is told, and cannot say so where `silent` has the number (from 0) of the call of `script`
    among those that gave something."""

    def __init__(self, store):
        self._store = store
        self._calls = itertools.count()
        self.script = None
        self.silent = frozenset()
        self.lost = trio.Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    def forget(self, script, *calls):
        self.script, self.silent = script, frozenset(calls)

    async def write(self, script, *args, **kwargs):
        result = await self._store.write(script, *args, **kwargs)
        gave = result.requests if script is claims.claim else result
        if script is self.script and gave and next(self._calls) in self.silent:
            self.lost.set()
            raise StoreUncertain("the answer is lost")
        return result


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    return "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
async def context(url, tmp_path):
    """A context on a forgetful store, by each driver."""
    settings = config.parse(CONFIG)
    fleet = Fleet()
    await fleet.update(settings)
    endpoints = Endpoints()
    endpoints.add(ChatCompletions())
    async with open_store(url, tmp_path, migrations=migrate.core(), exclusive=True) as store:
        yield Context(settings, Forgetful(store), endpoints, Executor(fleet), Load())
    await fleet.aclose()


async def submit(context, counts):
    """Store a batch with so many requests by model; return a function that reads it."""
    account = await context.store.write(accounts.create_account, "test", "internal")
    key, _ = await context.store.write(accounts.create_key, account.id)
    new = admission.NewBatch(new_id("batch_"), "batches", "inline", account.id, key.id, config.CHAT_COMPLETIONS, 86_400)
    body = b'{"model":"%s","messages":[{"role":"user","content":"hi"}]}'
    models = [model for model, count in counts.items() for _ in range(count)]
    requests = [NewRequest(f"q{n}", model, body % model.encode()) for n, model in enumerate(models)]

    def create():
        yield from admission.insert(new, "staging")
        reserved = yield from admission.reserve(new.id, list(counts), len(requests))
        yield from admission.append(reserved, 0, requests)
        yield from admission.publish(new, reserved, counts, 0, context.limits, context.policy, None)

    await context.store.write(create)
    return lambda: context.store.read(batches.get, account.id, new.id, "batches")


async def until_final(context, read):
    with trio.fail_after(30):
        async with context.store.listen("batches") as told:
            while not (batch := await read()).is_final:
                await anext(told)
    return batch


def every(column):
    return [value for (value,) in (yield Query(f"SELECT {column} FROM requests ORDER BY number"))]


@contextlib.asynccontextmanager
async def running(context):
    scheduler = Scheduler(context)
    async with scheduler.running():
        yield scheduler
        scheduler.drain(0)


async def test_requests_of_unanswered_claims_run_and_their_attempts_count_once(context):
    context.store.forget(claims.claim, 0, 1, 3, 6, 7)
    async with running(context):
        read = await submit(context, {"m": 100, "n": 20})
        batch = await until_final(context, read)
    assert (batch.completed, batch.queued, batch.running, batch.cost_unknown) == (120, 0, 0, 0)
    assert await context.store.read(every, "attempts") == [1] * 120
    assert await context.store.read(every, "lease") == [None] * 120


async def test_what_an_unanswered_claim_took_is_not_left_behind_by_a_daemon_that_ends(context):
    """Its last claim is answered by silence, and there is no time to look again."""
    read = await submit(context, {"m": 8})
    context.store.forget(claims.claim, 0)
    async with running(context):
        with trio.fail_after(10):
            await context.store.lost.wait()
    assert (await read()).queued == 8
    async with running(context):
        assert (await until_final(context, read)).completed == 8


async def test_what_is_known_is_kept_while_the_unknown_is_given_back(context):
    """A claim is lost while others of its model run: those are not run twice."""
    context.store.forget(claims.claim, 4)
    async with running(context):
        read = await submit(context, {"m": 200})
        batch = await until_final(context, read)
    assert context.store.lost.is_set()
    assert batch.completed == 200
    assert await context.store.read(every, "attempts") == [1] * 200
    assert await context.store.read(spent) == [(200, 0)]


def spent():
    return (yield Query("SELECT attempts, cost_unknown FROM spending"))


async def test_jobs_of_an_unanswered_take_are_done_once(context, monkeypatch):
    monkeypatch.setattr(runner, "LOOK_S", 0.1)
    daemon = await context.store.write(leases.register, "one")
    context.daemon = lambda: daemon
    for number in range(5):
        await context.store.write(jobs.enqueue, "k", f"s{number}", time.time() - 1)
    done = []
    all_done = trio.Event()

    async def handle(_, job):
        await context.store.write(jobs.done, job)
        done.append((job.subject, job.attempts))
        if len(done) == 5:
            all_done.set()

    context.store.forget(jobs.take, 0, 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.JobRunner(context, "k", handle, at_once=2).run)
        with trio.fail_after(30):
            await all_done.wait()
        nursery.cancel_scope.cancel()
    assert context.store.lost.is_set()
    assert sorted(done) == [(f"s{number}", 1) for number in range(5)]
