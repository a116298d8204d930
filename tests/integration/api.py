"""The HTTP API on a real socket over a real store, without the scheduler: how requests end is told by the test."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import trio
from oracle import as_described

from fibatchd import config as configuration
from fibatchd import plugin_loader
from fibatchd.context import Context
from fibatchd.domain.accounts import Account, Key
from fibatchd.domain.requests import Claimed, Failure, Outcome, Usage
from fibatchd.errors import StoreUnavailable
from fibatchd.ids import request_id
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.endpoint import Endpoints
from fibatchd.inference.execute import Executor
from fibatchd.inference.load import Load
from fibatchd.store import accounts, claims, leases, record
from fibatchd.store.interface import Store
from fibatchd.store.opening import open_store
from fibatchd.upstream.fleet import Fleet
from fibatchd.web.app import create_app
from fibatchd.web.guards import Limits
from fibatchd.web.server import serve

CONFIG = """
[batches]
create_tiers = ["internal", "admin", "pro"]
[storage]
min_free_bytes = 0
[tiers.free]
daily_quota_usd = "1.00"
[[models]]
id = "glm-5.3-flash"
aliases = ["glm-flash"]
price_usd_per_million = { input = "0.10", output = "0.40" }
upstreams = [{ url = "echo:" }]
[[models]]
id = "qwen3.6-35b"
upstreams = [{ url = "echo:" }]
[[models]]
id = "internal-only"
tiers = ["internal", "admin"]
upstreams = [{ url = "echo:" }]
"""
"""Models, prices and tiers of the tests; more is added at the end."""


class Clock:
    """The store's time, moved by the test."""

    def __init__(self) -> None:
        self.now = 1_795_000_000.0  # 2026-11-18 09:46:40 UTC

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Owner:
    """An account and one of its keys."""

    account: Account
    key: Key
    secret: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}"}


class Faulty:
    """A store that can be taken away: `down`, and with `room` False it has no space left."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.shared = store.shared
        self.listen = store.listen
        self.down = False
        self.room = True
        self.writes: list[str] = []

    async def read(self, script: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._check()
        return await self._store.read(script, *args, **kwargs)

    async def write(self, script: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._check()
        self.writes.append(script.__name__)
        return await self._store.write(script, *args, **kwargs)

    def has_room(self) -> bool:
        return self.room

    def _check(self) -> None:
        if self.down:
            raise StoreUnavailable("disk I/O error in /var/lib/secret.db")


@dataclass
class Api:
    """A served API. `http` is a client without a key; `ada` an internal account, whose key `call` sends."""

    app: Any
    context: Context
    store: Faulty
    clock: Clock
    http: httpx2.AsyncClient
    port: int
    ready: bool = True
    ada: Owner = field(init=False)

    async def owner(self, name: str = "bob", tier: str = "internal", **key: Any) -> Owner:
        account = await self.context.store.write(accounts.create_account, name, tier)
        return await self.key_of(account, **key)

    async def key_of(self, account: Account, **options: Any) -> Owner:
        made = await self.context.store.write(accounts.create_key, account.id, **options)
        return Owner(account, *made)

    async def call(self, method: str, path: str, *, by: Owner | None = None, **options: Any) -> httpx2.Response:
        headers = (by or self.ada).headers | dict(options.pop("headers", {}))
        return await self.http.request(method, path, headers=headers, **options)

    async def create(self, requests: Any = None, *, by: Owner | None = None, **members: Any) -> dict[str, Any]:
        """Create a batch, of two requests unless others are given."""
        body = {"requests": requests or [chat("q-1"), chat("q-2")]} | members
        answer = await self.call("POST", "/v1/batches", by=by, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def get(self, batch_id: str) -> dict[str, Any]:
        answer = await self.call("GET", f"/v1/batches/{batch_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def configure(self, **batches: Any) -> None:
        """Change settings of [batches], as a reload does."""
        config = self.context.config
        self.context.config = replace(config, batches=replace(config.batches, **batches))

    async def claim(self, batch_id: str, count: int = 1000) -> list[Claimed]:
        """Take queued requests of a batch, as a daemon does."""
        store = self.context.store
        daemon = await store.write(leases.register, "test")
        taken: list[Claimed] = []
        for model in self.context.config.models:
            lanes, _ = await store.read(claims.candidates, model.id)
            takes = [(lane.lane, count - len(taken)) for lane in lanes if lane.batch_id == batch_id]
            if takes and takes[0][1]:
                taken += (await store.write(claims.claim, daemon, takes, lambda *_: True)).requests
        return sorted(taken, key=lambda claimed: claimed.number)

    async def end(self, *outcomes: Outcome) -> None:
        assert await self.context.store.write(record.record, outcomes, self.context.policy) == len(outcomes)

    async def run(self, batch_id: str, answer: bytes = b'{"choices":[]}') -> None:
        """Have all queued requests of a batch succeed."""
        await self.end(*[success(claimed, answer) for claimed in await self.claim(batch_id)])


def success(claimed: Claimed, body: bytes = b'{"choices":[]}', **more: Any) -> Outcome:
    return Outcome(claimed, request_id(), answer=(200, body), **{"usage": Usage(16, 0, 120), "cost": 49_600_000} | more)


def failure(claimed: Claimed, code: str, message: str, status: int | None, **more: Any) -> Outcome:
    return Outcome(claimed, request_id(), failure=Failure(code, message, status), **more)


def chat(custom_id: str = "q-1", **body: Any) -> dict[str, Any]:
    """An item of `requests`."""
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": chat_body(**body)}


def chat_body(**changes: Any) -> dict[str, Any]:
    return {"model": "glm-5.3-flash", "messages": [{"role": "user", "content": "Name three primes."}]} | changes


@asynccontextmanager
async def serving(
    tmp_path: Path,
    *,
    extra: str = "",
    store_url: str = "sqlite:fibatchd.db",
    plugins: Mapping[str, object] | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Api]:
    """Serve the API for as long as the block runs. `extra` is put behind CONFIG, `plugins` are added by name. Without those,
    which may do as they like, every answer that the client gets is held against the API's description."""
    loaded = plugin_loader.load(extra=plugins)
    settings = configuration.parse(CONFIG + extra)
    clock = Clock()
    async with open_store(store_url, tmp_path, migrations=loaded.migrations(), exclusive=True, clock=clock) as store:
        fleet = Fleet()
        await fleet.update(settings)
        faulty = Faulty(store)
        context = Context(settings, faulty, Endpoints(), Executor(fleet), Load())
        context.endpoints.add(ChatCompletions())
        for name, found in loaded.endpoints(context):
            for endpoint in found:
                context.endpoints.add(endpoint, name)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        shutdown = trio.Event()
        base, hooks = f"http://127.0.0.1:{port}", {"response": [] if plugins else [as_described]}
        async with trio.open_nursery() as nursery, httpx2.AsyncClient(base_url=base, event_hooks=hooks) as http:
            app = create_app(context, loaded, ready=lambda: api.ready)
            api = Api(app, context, faulty, clock, http, port)
            await nursery.start(context.bookkeeper.run)
            options = {"shutdown": shutdown, "grace_s": 5, "limits": limits, "error_body": app.error_body}
            options["trusted_proxies"] = settings.server.trusted_proxies
            await nursery.start(partial(serve, app, listeners, **options))
            api.ada = await api.owner("ada")
            yield api
            faulty.down = False
            shutdown.set()
            await http.aclose()
            nursery.cancel_scope.cancel()
        await fleet.aclose()
