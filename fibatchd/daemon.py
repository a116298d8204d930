"""Composes the daemon: what is opened, which nursery holds which, how it stops. Nothing else happens here.

services: plugins', metrics page, … (they must see the last events)
└── signals
    └── front end (its listeners close at once, its requests get `drain_s`)
        └── scheduler: recorder and lease > attempts (stopping gives them `drain_s`) > pools (cancelled at once)
"""

import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog
import trio

from fibatchd import __version__, allocator, config, log, plugin_loader
from fibatchd.config import Config
from fibatchd.context import Context, Service
from fibatchd.errors import ConfigError
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.endpoint import Endpoints
from fibatchd.inference.execute import Executor
from fibatchd.inference.load import Load
from fibatchd.metrics import Page
from fibatchd.monitoring.figures import Sources, metrics_of
from fibatchd.monitoring.heartbeat import Heartbeat
from fibatchd.monitoring.manager import ServiceManager
from fibatchd.monitoring.page import MetricsPage
from fibatchd.monitoring.standing import KnownStanding
from fibatchd.plugin_loader import Plugins
from fibatchd.scheduler.pools import Scheduler
from fibatchd.scheduler.transitions import Transitions
from fibatchd.store.interface import Store
from fibatchd.store.measured import MeasuredStore
from fibatchd.store.opening import open_store
from fibatchd.supervise import supervise
from fibatchd.upstream.fleet import Fleet
from fibatchd.upstream.load_probe import LoadProbe
from fibatchd.web.app import Api, create_app
from fibatchd.web.guards import Limits
from fibatchd.web.listeners import open_listeners, take_inherited, urls
from fibatchd.web.server import Serving, Tls, serve

logger = structlog.get_logger()

SWITCH_S = 0.001
"""Threads parse and write while the loop serves. Each time it comes back from a system call it waits this long, at most,
for the interpreter; with Python's 5 ms, a call that needs ten of them would take 50 ms."""


def run(config_path: Path | None, *, on_ready: Callable[[str], None] | None = None) -> int:
    """Run the daemon until a signal ends it; return the exit status. `on_ready` is told the URL when it takes work."""
    sys.setswitchinterval(SWITCH_S)
    allocator.give_back_large_blocks()
    trio.run(partial(_main, config_path, on_ready))
    return 0


def read_config(config_path: Path | None, plugins: Plugins) -> Config:
    """Return the configuration, checked with what the plugins add to it."""
    return config.load(config_path, plugin_schemas=plugins.settings(), known_extensions=plugins.names)


async def _main(config_path: Path | None, on_ready: Callable[[str], None] | None) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        plugins = plugin_loader.load(config.plugin_dir(config_path) if config_path else None)
        settings = read_config(config_path, plugins)
        log.configure(settings.log)
        async with _opened(settings, plugins) as store, _fleet(settings) as fleet:
            context = compose(settings, store, fleet, plugins)
            await Daemon(config_path, plugins, context, store, on_ready).run(signals)


@asynccontextmanager
async def _opened(settings: Config, plugins: Plugins) -> AsyncIterator[MeasuredStore]:
    storage = settings.storage
    async with open_store(
        storage.url,
        settings.server.data_dir,
        migrations=plugins.migrations(),
        exclusive=True,
        min_free_bytes=storage.min_free_bytes,
        password_file=storage.password_file,
        pool_size=storage.pool_size,
        statement_timeout_s=storage.statement_timeout_s,
    ) as store:
        yield MeasuredStore(store)


@asynccontextmanager
async def _fleet(settings: Config) -> AsyncIterator[Fleet]:
    fleet = Fleet()
    await fleet.update(settings)
    try:
        yield fleet
    finally:
        await fleet.aclose()


def compose(settings: Config, store: Store, fleet: Fleet, plugins: Plugins) -> Context:
    """Return what all parts share, with what the plugins contribute to it. Raises ConfigError where a model names an
    endpoint that nothing serves."""
    endpoints = Endpoints()
    executor = Executor(fleet, retry_after_cap_s=settings.batches.retry_after_cap_s)
    context = Context(settings, store, endpoints, executor, Load())
    endpoints.add(ChatCompletions())
    for name, found in plugins.endpoints(context):
        for endpoint in found:
            endpoints.add(endpoint, name)
    check_endpoints(settings, endpoints)
    for names in plugins.hook.fibatchd_event_names():
        context.event_names.update(names)
    context.on_end += plugins.hook.fibatchd_batch_ended(context=context)
    context.on_delete += plugins.hook.fibatchd_batch_deleted(context=context)
    return context


def check_endpoints(settings: Config, endpoints: Endpoints) -> None:
    """Raise ConfigError for every endpoint of a model that neither the core nor a plugin serves."""
    known = ", ".join(sorted(endpoints.by_path))
    problems = [
        f"models[{number}].endpoints[{index}]: nothing serves {path!r}; known are {known}"
        for number, model in enumerate(settings.models)
        for index, path in enumerate(model.endpoints)
        if endpoints.get(path) is None
    ]
    if problems:
        raise ConfigError(problems)


class Daemon:
    """One running daemon."""

    def __init__(
        self,
        config_path: Path | None,
        plugins: Plugins,
        context: Context,
        store: MeasuredStore,
        on_ready: Callable[[str], None] | None,
    ) -> None:
        self._config_path = config_path
        self._plugins = plugins
        self._context = context
        self._store = store
        self._on_ready = on_ready
        self._scheduler = Scheduler(context)
        self._manager = ServiceManager(store)
        self._inherited = take_inherited(os.environ)
        self._ready = False
        self._serving = "Serving"
        self._reloaded = True
        self._stopping = trio.Event()
        self._claims_over = trio.Event()
        self._tls = _tls(context.config)
        self._front: Serving | None = None

    async def run(self, signals: AsyncIterator[int]) -> None:
        """Start everything from the outside in, and stop it from the inside out."""
        context = self._context
        app = create_app(context, self._plugins, ready=lambda: self._ready)
        async with trio.open_nursery() as services:
            for service in self._services(app):
                await services.start(supervise, service.name, service.run)
            async with trio.open_nursery() as heeding:
                async with trio.open_nursery() as front:
                    heeding.start_soon(self._heed, signals, front)
                    async with self._scheduler.running():
                        await self._serve(front, app)
                        await self._stopping.wait()
                    self._claims_over.set()
                heeding.cancel_scope.cancel()
            services.cancel_scope.cancel()
        logger.info("stopped")

    def _services(self, app: Api) -> Iterator[Service]:
        """Give what runs from before the first request until after the last."""
        context, transitions, heartbeat = self._context, Transitions(self._store), Heartbeat()
        yield from (self._manager, heartbeat, transitions, context.bookkeeper, app.throughput)
        yield LoadProbe(context.executor.fleet, context.load.report)
        for found in self._plugins.hook.fibatchd_services(context=context):
            yield from found
        if address := context.config.metrics.listen:
            standing = KnownStanding(self._store)
            sources = Sources(
                context, self._scheduler, app.traffic, transitions, self._store, heartbeat, standing,
                ready=lambda: self._ready, reloaded=lambda: self._reloaded,
            )  # fmt: skip
            core = metrics_of(sources)
            yield MetricsPage(address, Page(lambda: [*core, *context.metrics]), standing.refresh, self._inherited)

    async def _serve(self, front: trio.Nursery, app: Api) -> None:
        server = self._context.config.server
        listeners = await open_listeners(server.listen, inherited=self._inherited)
        reached = urls(listeners, "https" if self._tls else "http")
        self._front = await front.start(
            partial(
                serve,
                app,
                listeners,
                shutdown=self._stopping,
                drained=self._claims_over,
                grace_s=server.drain_s,
                limits=_limits(self._context.config),
                tls=self._tls,
                error_body=app.error_body,
                trusted_proxies=server.trusted_proxies,
                traffic=app.traffic,
            )
        )
        self._hold_front()  # the configuration may have been read again meanwhile
        gc.collect()
        gc.freeze()  # what is loaded by now stays: to look through it again and again would hold the loop each time
        if not self._stopping.is_set():  # it may have been told to while it started
            self._announce(reached)

    def _announce(self, reached: list[str]) -> None:
        """Work is taken from now on, at these URLs."""
        self._ready = True
        self._serving = f"Serving {', '.join(reached)}"
        self._manager.ready(self._serving)
        settings = self._context.config
        logger.info("ready", version=__version__, listen=reached, models=[model.id for model in settings.models])
        if not settings.models:
            path = self._config_path
            logger.warning("no models are configured: every request will be refused", config=path and str(path))
        if self._on_ready is not None:
            self._on_ready(reached[0])

    async def _heed(self, signals: AsyncIterator[int], front: trio.Nursery) -> None:
        """SIGHUP reads the configuration again; the first SIGTERM or SIGINT drains, the second ends at once."""
        async for number in signals:
            if number == signal.SIGHUP:
                if not self._stopping.is_set():
                    await self._reload()
            elif not self._stopping.is_set():
                drain_s = self._context.config.server.drain_s
                logger.info("stopping", signal=signal.Signals(number).name, drain_s=drain_s)
                self._manager.stopping(drain_s)
                self._ready = False
                self._scheduler.drain(drain_s)
                self._stopping.set()
            else:
                logger.warning("stopping at once", signal=signal.Signals(number).name)
                self._scheduler.drain(0)
                front.cancel_scope.cancel()

    async def _reload(self) -> None:
        if self._ready:  # before that, READY=1 at the end would be a lie
            self._manager.reloading()
        try:
            # In a thread: a long file takes longer to check than the loop may be held.
            fresh = await trio.to_thread.run_sync(read_config, self._config_path, self._plugins)
            check_endpoints(fresh, self._context.endpoints)
            settings, ignored = config.reload(self._context.config, fresh)
            tls = _tls(settings)
            await self._context.executor.fleet.update(settings)
        except (ConfigError, OSError) as error:
            logger.error("reload failed, the old configuration stays", problems=str(error).splitlines())
            self._reloaded = False
        else:
            self._take(settings, tls)
            logger.info("reloaded", ignored=ignored, models=[model.id for model in settings.models])
            self._reloaded = True
        if self._ready:
            self._manager.ready(self._serving + ("" if self._reloaded else "; the last reload failed, see the log"))

    def _take(self, settings: Config, tls: Tls | None) -> None:
        """Work by other settings from now on."""
        self._context.config = settings
        self._context.executor.retry_after_cap_s = settings.batches.retry_after_cap_s
        log.configure(settings.log)
        if self._tls is not None and tls is not None:
            self._tls.replace_by(tls)
        self._hold_front()
        self._scheduler.refresh()

    def _hold_front(self) -> None:
        """Have the front end hold its clients to what the configuration says now."""
        settings = self._context.config
        if self._front is not None:
            self._front.hold_to(_limits(settings), settings.server.trusted_proxies, settings.server.drain_s)


def _limits(settings: Config) -> Limits:
    """What no request may pass; a body may be larger than the largest create call by the form that a file comes in."""
    server = settings.server
    most = max(Limits.max_body_bytes, settings.batches.max_body_bytes + 2**20)
    return Limits(head_s=server.header_timeout_s, idle_s=server.keep_alive_s, max_body_bytes=most)


def _tls(settings: Config) -> Tls | None:
    server = settings.server
    if server.tls_cert is None or server.tls_key is None:
        return None
    try:
        return Tls(server.tls_cert, server.tls_key)
    except OSError as error:
        raise ConfigError([f"server.tls_cert: cannot be used: {error}"]) from None
