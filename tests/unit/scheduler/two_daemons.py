"""A second daemon's scheduler on the store of a test's world, and what runs on both; see the fixture `shared`."""

import contextlib

from fibatchd.context import Context
from fibatchd.inference.execute import Executor
from fibatchd.inference.load import Load
from fibatchd.scheduler.pools import Scheduler
from fibatchd.upstream.fleet import Fleet


@contextlib.asynccontextmanager
async def second_daemon(w):
    """A second scheduler on the same store, with upstreams, a load and a context of its own."""
    fleet = Fleet()
    await fleet.update(w.context.config)
    context = Context(w.context.config, w.store, w.context.endpoints, Executor(fleet), Load())
    async with Scheduler(context).running() as scheduler:
        yield scheduler
        scheduler.drain(0)
    await fleet.aclose()


def running(*schedulers):
    """How many requests of the model `m` run on these."""
    return sum(len(scheduler.pools["m"].running) for scheduler in schedulers)
