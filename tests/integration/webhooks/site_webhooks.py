"""A server with webhooks, receivers that do as the test says, and the sentences its tests are told in."""

import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import trio
from api import Api, serving
from fibatchd_plugins import webhooks as plugin
from fibatchd_plugins.webhooks.settings import TABLE

from fibatchd.store import leases
from fibatchd.store.interface import Query

SETTINGS = {"allow_private_addresses": True, "retry_base_s": 0.02, "retry_cap_s": 0.05, "timeout_s": 10}


@dataclass
class Post:
    """One request as a receiver got it."""

    path: str
    headers: dict[str, str]
    body: bytes
    stream: trio.abc.Stream

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    async def reply(self, status: int = 200, *headers: str, body: bytes = b"") -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers, "", ""]
        await self.stream.send_all("\r\n".join(lines).encode() + body)


Behaviour = Callable[[Post], Awaitable[None]]


async def accept(post: Post) -> None:
    await post.reply(204)


async def hang(post: Post) -> None:
    await trio.sleep_forever()


def answers(*statuses: Any) -> Behaviour:
    """Answer with these, one after another, and with the last from then on; a tuple is a status and headers."""
    left = list(statuses)

    async def behave(post: Post) -> None:
        status = left.pop(0) if len(left) > 1 else left[0]
        await post.reply(*status if isinstance(status, tuple) else (status,))

    return behave


@dataclass
class Receiver:
    """An endpoint. `posts` are what has come so far; `behaviour` answers."""

    port: int
    behaviour: Behaviour = accept
    posts: list[Post] = field(default_factory=list)
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?of=ada"

    async def count(self, number: int) -> list[Post]:
        """Wait until so many posts have come."""
        with trio.fail_after(30):
            while len(self.posts) < number:
                await self._changed.wait()
        return self.posts

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Take one request and answer it; the sender may break it off at any time."""
        try:
            async with stream:
                received = bytearray()
                while b"\r\n\r\n" not in received:
                    if not (data := await stream.receive_some()):
                        return
                    received += data
                head, _, body = bytes(received).partition(b"\r\n\r\n")
                request_line, *lines = head.decode().split("\r\n")
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
                while len(body) < int(headers["content-length"]):
                    body += await stream.receive_some()
                post = Post(request_line.split()[1], headers, body, stream)
                self.posts.append(post)
                self._changed.set()
                self._changed = trio.Event()
                await self.behaviour(post)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


@asynccontextmanager
async def receiving(
    behaviour: Behaviour = accept, *, tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[Receiver]:
    """Serve an endpoint for as long as the block runs."""
    listeners: list[Any] = await trio.open_tcp_listeners(port, host="127.0.0.1")
    receiver = Receiver(listeners[0].socket.getsockname()[1], behaviour)
    if tls is not None:
        listeners = [trio.SSLListener(listener, tls) for listener in listeners]
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, receiver.serve, listeners)
        yield receiver
        nursery.cancel_scope.cancel()


@dataclass
class Site:
    """The API with an account `ada`, as `Api` has it, and what is about webhooks."""

    api: Api

    def __getattr__(self, name: str) -> Any:
        return getattr(self.api, name)

    def settings(self, **changes: Any) -> None:
        """Change [webhooks], as a reload does."""
        config = self.api.context.config
        table = MappingProxyType({**config.plugin_tables.get(TABLE, {}), **changes})
        self.api.context.config = replace(config, plugin_tables={TABLE: table})

    def switch(self, on: bool) -> None:
        self.api.context.config = replace(self.api.context.config, extensions={TABLE: on})

    async def put(self, url: str, **more: Any) -> Any:
        options = {"by": more.pop("by", None)}
        return await self.api.call("PUT", "/v1/batch_webhook", json={"url": url} | more, **options)

    async def set(self, url: str, **more: Any) -> dict[str, Any]:
        answer = await self.put(url, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def show(self) -> dict[str, Any]:
        return (await self.api.call("GET", "/v1/batch_webhook")).json()

    async def events(self, **query: Any) -> list[dict[str, Any]]:
        answer = await self.api.call("GET", "/v1/batch_webhook/events", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    async def event(self, *statuses: str) -> dict[str, Any]:
        """The newest event, once its status is one of these."""
        with trio.fail_after(30):
            while True:
                events = await self.events()
                if events and events[0]["status"] in statuses:
                    return events[0]
                await trio.sleep(0.01)  # the API is polled, as its users do

    async def attempted(self, number: int) -> dict[str, Any]:
        """The newest event, once so many attempts at it are recorded; then the next one is due."""
        with trio.fail_after(30):
            while True:
                events = await self.events()
                if events and len(events[0]["attempts"]) >= number:
                    self.api.clock.advance(1)
                    return events[0]
                await trio.sleep(0.01)

    async def ended(self, **options: Any) -> str:
        """The id of a batch that has just been completed."""
        batch = await self.api.create(**options)
        await self.api.run(batch["id"])
        return str(batch["id"])

    async def become(self) -> int:
        """Be another daemon from now on."""
        daemon = await self.api.context.store.write(leases.register, "test")
        self.api.context.daemon = lambda: daemon
        return daemon

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        def select():
            return (yield Query(sql))

        return await self.api.context.store.read(select)

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Have the plugin's services run for as long as the block does."""
        async with trio.open_nursery() as nursery:
            for service in plugin.fibatchd_services(self.api.context):
                await nursery.start(service.run)
            yield
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_site(tmp_path, store_url: str = "sqlite:fibatchd.db") -> AsyncIterator[Site]:
    """Serve, with the extension on and private addresses allowed. Events are delivered inside `sending` only."""
    async with serving(tmp_path, store_url=store_url) as api:
        api.clock.now = time.time()
        api.context.on_end.append(plugin.fibatchd_batch_ended(api.context))
        site = Site(api)
        site.switch(True)
        site.settings(**SETTINGS)
        await site.become()
        yield site
