"""A scheduler with its store and its upstreams in this process, on a clock that jumps over idle time."""

import contextlib
import json
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
from scripted import Upstream

from fibatchd import config
from fibatchd.context import Context
from fibatchd.domain.requests import NewRequest
from fibatchd.ids import new_id
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.endpoint import Endpoints
from fibatchd.inference.execute import Executor
from fibatchd.inference.load import Load
from fibatchd.scheduler.pools import Scheduler
from fibatchd.store import accounts, admission, batches, migrate, results
from fibatchd.store.sqlite import SqliteStore, open_sqlite
from fibatchd.upstream import fleet


@pytest.fixture
def clock():
    """Jumps as soon as nothing is left to do, the store's work included."""
    return trio.testing.MockClock(autojump_threshold=0)


class Timeless:
    """A store for whose work no time passes, though its threads take a moment."""

    def __init__(self, store, clock) -> None:
        self._store = store
        self._clock = clock
        self._working = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def write(self, script, *args, **kwargs):
        with self._time_stands_still():
            return await self._store.write(script, *args, **kwargs)

    async def read(self, script, *args, **kwargs):
        with self._time_stands_still():
            return await self._store.read(script, *args, **kwargs)

    @contextlib.contextmanager
    def _time_stands_still(self):
        self._working += 1
        self._clock.autojump_threshold = math.inf
        try:
            yield
        finally:
            self._working -= 1
            if not self._working:
                self._clock.autojump_threshold = 0


class World:
    """What a test of the scheduler acts on and looks at."""

    def __init__(self, context: Context, epoch: float) -> None:
        self.context = context
        self.store = context.store
        self.epoch = epoch

    @property
    def now(self) -> float:
        """The store's time."""
        return self.epoch + trio.current_time()

    async def account(self, tier: str = "internal"):
        account = await self.store.write(accounts.create_account, "test", tier)
        key, _secret = await self.store.write(accounts.create_key, account.id)
        return account, key

    async def withdraw(self, owner, how: str) -> None:
        """Take an owner's right to run anything: the key is "revoked", or the account "suspended" or "deleted"."""
        account, key = owner
        if how == "revoked":
            await self.store.write(accounts.revoke_key, key.id)
        elif how == "suspended":
            await self.store.write(accounts.set_account_status, account.id, "suspended")
        else:
            await self.store.write(accounts.delete_account, account.id)

    async def submit(self, owner, count: int, model="m", *, window_s: float = 86_400, text="say", batch_id=None):
        """Store a batch of chat requests as a create call does; return its id."""
        account, key = owner
        new = admission.NewBatch(
            batch_id or new_id("batch_"), "batches", "inline", account.id, key.id, config.CHAT_COMPLETIONS, window_s
        )
        limits = admission.Limits(100, 10**6)

        def script():
            yield from admission.insert(new, "staging")
            reserved = yield from admission.reserve(new.id, [model], count)
            requests = [NewRequest(f"q{n}", model, body(model, f"{text} {n}")) for n in range(count)]
            yield from admission.append(reserved, 0, requests)
            yield from admission.publish(new, reserved, {model: count}, 0, limits, self.context.policy, None)

        await self.store.write(script)
        return new.id

    async def batch(self, owner, batch_id: str):
        return await self.store.read(batches.get, owner[0].id, batch_id, "batches")

    async def until(self, owner, batch_id: str, *, seconds: float = 3600):
        """Wait until the batch is final and return it; None where it was deleted instead."""
        with trio.fail_after(seconds):
            async with self.store.listen("batches") as told:
                batch = await self.batch(owner, batch_id)
                while batch is not None and not batch.is_final:
                    await anext(told)
                    batch = await self.batch(owner, batch_id)
        return batch

    async def results(self, owner, batch_id: str):
        batch = await self.batch(owner, batch_id)
        span = results.Range.of(batch)
        return list(
            await self.store.read(results.piece, batch, span.first, span.last, max_rows=10_000, max_bytes=1 << 30)
        )

    async def reload(self, text: str) -> None:
        self.context.config = config.parse(text)
        await self.context.executor.fleet.update(self.context.config)
        self.scheduler.refresh()


def body(model: str, content: str) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": content}]}).encode()


@pytest.fixture
def shared(monkeypatch):
    """SQLite's stores are told that other daemons may be on them."""
    monkeypatch.setattr(SqliteStore, "shared", True)


@pytest.fixture
def upstreams(monkeypatch):
    """Scripted upstreams in the place of all but the echo: ones, by URL."""
    found = defaultdict(Upstream)
    real = fleet.client_for
    monkeypatch.setattr(fleet, "client_for", lambda one: real(one) if one.is_echo else found[one.url])
    return found


@pytest.fixture
def world(tmp_path):
    """Open a world on a configuration: `async with world(text, epoch=…) as w`."""

    @contextlib.asynccontextmanager
    async def opened(text: str, *, epoch: float | None = None) -> AsyncIterator[World]:
        epoch = time.time() if epoch is None else epoch
        settings = config.parse(text)
        began = trio.current_time()
        token = trio.lowlevel.current_clock()
        store = await open_sqlite(
            tmp_path / "fibatchd.db",
            migrations=migrate.core(),
            exclusive=True,
            clock=lambda: epoch + token.current_time() - began,
        )
        members = fleet.Fleet()
        await members.update(settings)
        endpoints = Endpoints()
        endpoints.add(ChatCompletions())
        context = Context(settings, Timeless(store, token), endpoints, Executor(members), Load())
        made = World(context, epoch - began)
        made.scheduler = Scheduler(context)
        try:
            async with made.scheduler.running():
                yield made
                made.scheduler.drain(0)
        finally:
            await members.aclose()
            await store.aclose()

    return opened
