"""What all connections of one front end share: the app, the limits, and who is open, idle or at work."""

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog
import trio
from hypercorn.config import Config
from hypercorn.logging import Logger
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework
from structlog.contextvars import bind_contextvars

from fibatchd.metrics import Labels
from fibatchd.web.forwarded import TrustedProxies
from fibatchd.web.traffic import Traffic

from .limits import ErrorBody, Limits

log = structlog.get_logger(__name__)


class Application:
    """The app as hypercorn calls it, each request run with its id bound to the log lines of its task."""

    def __init__(self, app: ASGIFramework) -> None:
        self._app = app

    async def __call__(
        self, scope: Any, receive: Any, send: Any, sync_spawn: Callable[..., Any], call_soon: Callable[..., Any]
    ) -> None:
        if scope["type"] == "http":
            bind_contextvars(request_id=scope["state"]["request_id"])
        await self._app(scope, receive, send)


class FrontEndLog(Logger):
    """hypercorn's log, in structlog. Its access line is left to the app, which knows the account."""

    def __init__(self, _config: Config) -> None:
        pass

    async def access(self, *_: Any) -> None:
        pass

    async def warning(self, message: str, *_: Any, **__: Any) -> None:
        log.warning(message)

    async def exception(self, message: str, *_: Any, **__: Any) -> None:
        log.exception(message)


class Held(Protocol):
    """A connection, as far as its context needs to know it."""

    def cut(self) -> None: ...


class Context(WorkerContext):
    """Shared state. A connection is idle unless a request of it is being answered."""

    def __init__(
        self,
        app: ASGIFramework,
        limits: Limits,
        error_body: ErrorBody,
        trusted: TrustedProxies,
        traffic: Traffic | None = None,
    ) -> None:
        super().__init__(max_requests=None)
        self.app = Application(app)
        self.config = hypercorn_config()
        self.limits = limits
        self.error_body = error_body
        self.trusted = trusted
        self.traffic = traffic or Traffic()
        self.traffic.connections = self._counted
        self._idle: dict[Held, None] = {}  # the longest idle first
        self._busy: set[Held] = set()
        self._waiters = trio.lowlevel.ParkingLot()

    @property
    def draining(self) -> bool:
        return bool(self.terminated.is_set())

    def make_room(self) -> bool:
        """Whether one more connection may come. At the cap the longest idle one is cut for it."""
        while len(self._idle) + len(self._busy) >= self.limits.max_connections and self._idle:
            longest = next(iter(self._idle))
            longest.cut()
            self.gone(longest)
        return len(self._busy) < self.limits.max_connections

    def idle(self, connection: Held) -> None:
        self.gone(connection)
        self._idle[connection] = None

    def busy(self, connection: Held) -> None:
        self._idle.pop(connection, None)
        self._busy.add(connection)

    def gone(self, connection: Held) -> None:
        self._idle.pop(connection, None)
        self._busy.discard(connection)
        if not self._busy:
            self._waiters.unpark_all()

    def _counted(self) -> Mapping[Labels, int]:
        return {("idle",): len(self._idle), ("busy",): len(self._busy)}

    async def drain(self, drained: trio.Event | None) -> None:
        """From now on requests are answered 503. Returns when the running ones have been answered and `drained`, where
        given, is set."""
        await self.terminated.set()
        if drained is not None:
            await drained.wait()
        while self._busy:
            await self._waiters.park()


def hypercorn_config() -> Config:
    config = Config()
    config.logger_class = FrontEndLog  # type: ignore[assignment]  # hypercorn's hint means the class itself
    config.include_server_header = False
    config.keep_alive_max_requests = sys.maxsize
    # A handler's inbox is bounded in bytes by BodyFlow; were it bounded in messages, too, an unread body would block
    # the end of its own request.
    config.max_app_queue_size = math.inf  # type: ignore[assignment]  # trio takes it, hypercorn's hint does not
    return config
