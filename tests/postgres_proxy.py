"""A proxy between the driver and a PostgreSQL, on which a test can stop time, cut cables, and lose the answer to a COMMIT."""

import contextlib
import urllib.parse

import trio


class Proxy:
    """`url` leads through it. `lose_commit` decides the fate of the next COMMIT: "before" it reaches the server, or
    "after", when the server has answered. `frozen` until `thaw` is called after `freeze`. Every chunk takes `delay` s."""

    def __init__(self, server_url):
        parts = urllib.parse.urlsplit(server_url)
        self._socket = f"{urllib.parse.parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._parts = parts
        self._moving = trio.Event()
        self._moving.set()
        self._pairs = set()
        self.lose_commit = None
        self.delay = 0.0
        self.lost = trio.Event()
        self._answered = trio.Event()

    @property
    def url(self):
        port = self._listeners[0].socket.getsockname()[1]
        return urllib.parse.urlunsplit(
            self._parts._replace(netloc=f"postgres@127.0.0.1:{port}", query="sslmode=disable")
        )

    def freeze(self):
        """Let no byte pass in either direction."""
        self._moving = trio.Event()

    def thaw(self):
        self._moving.set()

    def cut(self):
        """End all connections that stand."""
        for scope in list(self._pairs):
            scope.cancel()

    async def run(self, task_status):
        self._listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        task_status.started(self)
        await trio.serve_listeners(self._serve, self._listeners)

    async def _serve(self, client):
        with contextlib.suppress(OSError), trio.CancelScope() as scope:
            self._pairs.add(scope)
            async with await trio.open_unix_socket(self._socket) as server, trio.open_nursery() as nursery:
                nursery.start_soon(self._carry, client, server, scope, True)
                nursery.start_soon(self._carry, server, client, scope, False)
        self._pairs.discard(scope)

    async def _carry(self, source, target, scope, upwards):
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while chunk := await source.receive_some(65536):
                if not upwards:
                    self._answered.set()
                await self._moving.wait()
                if self.delay:
                    await trio.sleep(self.delay)
                if upwards and self.lose_commit and b"COMMIT" in chunk:
                    await self._lose(chunk, target, scope)
                    break
                await target.send_all(chunk)
        scope.cancel()

    async def _lose(self, commit, server, scope):
        fate, self.lose_commit = self.lose_commit, None
        if fate == "after":
            self.freeze()
            self._answered = trio.Event()
            await server.send_all(commit)
            await self._answered.wait()
            scope.cancel()  # before the answer may move on
            self.thaw()
        self.lost.set()


@contextlib.asynccontextmanager
async def open_proxy(server_url):
    """A proxy in front of the server, for as long as the block runs."""
    async with trio.open_nursery() as nursery:
        yield await nursery.start(Proxy(server_url).run)
        nursery.cancel_scope.cancel()
