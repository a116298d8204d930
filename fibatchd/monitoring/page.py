"""The page for Prometheus, on a listener of its own: nobody who may use the API need be able to read it, nor the reverse.

A listener that cannot be opened ends nothing: it is told loudly, and tried again until it can.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
import trio

from fibatchd.errors import ConfigError
from fibatchd.metrics import Page
from fibatchd.web.listeners import Inherited, open_listeners, urls
from fibatchd.web.server import serve

log = structlog.get_logger(__name__)

PATH = "/metrics"
AGAIN_S = 30.0
_TEXT = b"text/plain; charset=utf-8"


class MetricsPage:
    """A service: answers `GET /metrics` at `address` (as in `server.listen`). `refresh` is awaited before a page is
    written."""

    name = "metrics"

    def __init__(self, address: str, page: Page, refresh: Callable[[], Awaitable[None]], inherited: Inherited) -> None:
        self._address = address
        self._page = page
        self._refresh = refresh
        self._inherited = inherited

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        listeners = await self._listeners()
        task_status.started()
        while listeners is None:
            await trio.sleep(AGAIN_S)
            listeners = await self._listeners(again=True)
        log.info("metrics", listen=[f"{url}{PATH}" for url in urls(listeners)])
        await serve(self.app, listeners, shutdown=trio.Event())

    async def _listeners(self, *, again: bool = False) -> list[trio.SocketListener] | None:
        try:
            return await open_listeners([self._address], setting="metrics.listen", inherited=self._inherited)
        except ConfigError as error:
            if not again:
                log.error("THERE IS NO METRICS PAGE", problem=error.problems[0], again_in=AGAIN_S)
            return None

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request (ASGI 3)."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["path"] != PATH:
            await _answer(send, 404, b"Metrics are at /metrics\n")
        elif scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 405, b"", (b"allow", b"GET, HEAD"))
        else:
            await self._refresh()
            accept = next((value for name, value in scope["headers"] if name == b"accept"), b"")
            body, media_type = self._page.render(accept.decode("latin-1"))
            await _answer(send, 200, body, media_type=media_type.encode())


async def _live(receive: Any, send: Any) -> None:
    """Follow the server's start and end."""
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return


async def _answer(send: Any, status: int, body: bytes, *more: tuple[bytes, bytes], media_type: bytes = _TEXT) -> None:
    headers = [(b"content-type", media_type), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
