"""Runs the app on its listeners: accepting, serving, draining. Each connection is a guarded one."""

import resource
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import AF_UNIX

import structlog
import trio
from hypercorn.trio.lifespan import Lifespan
from hypercorn.typing import ASGIFramework

from .forwarded import TrustedProxies
from .guards import Connection, Context, ErrorBody, Limits, openai_error
from .traffic import Traffic

log = structlog.get_logger(__name__)


class Tls:
    """The certificate, a PEM chain, and its key. Raises `OSError` or `ssl.SSLError` where they cannot be used."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.context.load_cert_chain(certificate, key)

    def replace_by(self, fresh: "Tls") -> None:
        """Show connections from now on the certificate of another one."""
        self.context = fresh.context


class Serving:
    """A front end that serves, told by `serve` when it does."""

    def __init__(self, context: Context, grace_s: float) -> None:
        self._context = context
        self.grace_s = grace_s

    def hold_to(self, limits: Limits, trusted_proxies: Iterable[str], grace_s: float) -> None:
        """Change what it was begun with, for requests and connections from now on; `max_connections` stays."""
        self._context.limits = replace(limits, max_connections=self._context.limits.max_connections)
        self._context.trusted = TrustedProxies(trusted_proxies)
        self.grace_s = grace_s


async def serve(
    app: ASGIFramework,
    listeners: list[trio.SocketListener],
    *,
    shutdown: trio.Event,
    drained: trio.Event | None = None,
    grace_s: float = 60,
    limits: Limits | None = None,
    tls: Tls | None = None,
    error_body: ErrorBody = openai_error,
    trusted_proxies: Iterable[str] = (),
    traffic: Traffic | None = None,
    task_status: trio.TaskStatus[Serving] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` until `shutdown` is set and what was running has been answered; takes over the listeners.

    shutdown  the listeners close at once; requests that still come on open connections are answered 503
    drained   where given, those connections stay open until it is set, too: for a caller with work of its own to end
    grace_s   seconds from `shutdown` until what has not ended is cut
    tls       for TCP listeners; a unix socket is never spoken TLS to
    traffic   counts connections, and what is answered below the app
    """
    limits = limits or Limits()
    # Half of the descriptors are for clients: the other half are upstreams' and the database's, and must not run out.
    files = _allow_open_files(2 * limits.max_connections)
    limits = replace(limits, max_connections=min(limits.max_connections, files // 2))
    context = Context(app, limits, error_body, TrustedProxies(trusted_proxies), traffic)
    serving = Serving(context, grace_s)
    async with _lifespan(context), trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            handler = partial(_serve_connection, context, tls)
            await accepting.start(partial(trio.serve_listeners, handler, listeners, handler_nursery=connections))
            task_status.started(serving)
            await shutdown.wait()
            accepting.cancel_scope.cancel()
        connections.cancel_scope.deadline = deadline = trio.current_time() + serving.grace_s
        await context.drain(drained)
        connections.cancel_scope.cancel()  # what is left is idle, or lingers
    if trio.current_time() >= deadline:
        log.warning("grace period over, requests cut", grace_s=serving.grace_s)


def _allow_open_files(count: int) -> int:
    """Raise the soft limit, as far as the hard one lets, and return what may be open, up to `count`: the usual 1024 is
    kept low only for programs that use select."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


async def _serve_connection(context: Context, tls: Tls | None, stream: trio.SocketStream) -> None:
    secure = None if tls is None or stream.socket.family == AF_UNIX else tls.context
    await Connection(context, stream, secure).run()


@asynccontextmanager
async def _lifespan(context: Context) -> AsyncIterator[None]:
    """The app's start and end (ASGI lifespan), around everything else."""
    lifespan = Lifespan(context.app, context.config, {})
    async with trio.open_nursery() as nursery:
        await nursery.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        yield
        await lifespan.wait_for_shutdown()
        nursery.cancel_scope.cancel()
