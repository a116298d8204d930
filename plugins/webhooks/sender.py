"""The service that delivers events: leases what is due, sends it side by side, records what came of it."""

import random
from collections.abc import AsyncIterator

import structlog
import trio

from fibatchd.plugin_api import Context, LeaseLost, StoreUnavailable

from . import outbox
from .counts import Counts
from .delivery import attempt
from .outbox import CHANNEL, Attempt, Delivery, Event, Report, Room
from .reporter import Reporter
from .resolving import Resolver
from .schedule import next_wait
from .settings import Settings

LOOK_S = 5.0
"""How often events are looked for that nobody told of: leases of daemons that are gone, notices that were lost."""
REGISTER_S = 0.2
AGAIN_S = 1.0
SHORTEST_S = 0.01

log = structlog.get_logger(__name__)


class Sender:
    """Delivers events until cancelled. Several daemons share them: an event is in one's hands at a time."""

    name = "webhooks:sender"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._resolve = Resolver()
        self._held: set[Delivery] = set()
        """What is leased, until what came of it is stored."""
        self._sending: set[Delivery] = set()
        """What of it is on its way, and takes up places."""
        self._wake = trio.Event()
        self._counts = Counts()
        context.metrics += self._counts.metrics()

    async def run(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Look for events whenever one was written, one is due again, or one has made room."""
        if Settings.of(self._context.config).allow_private_addresses:
            log.warning(
                "WEBHOOKS MAY GO TO PRIVATE ADDRESSES: whoever has a key can make this server call machines of its network",
                setting="webhooks.allow_private_addresses",
            )
        self._held.clear()
        self._sending.clear()
        reporter = Reporter(self._context)
        async with self._context.store.listen(CHANNEL) as told, trio.open_nursery() as nursery:
            nursery.start_soon(self._heed, told)
            nursery.start_soon(reporter.run)
            task_status.started()
            while True:
                self._wake, looked_at = trio.Event(), trio.current_time()
                pause = await self._look(nursery, reporter)
                with trio.move_on_after(pause):
                    await self._wake.wait()
                # Deliveries that end in a burst wake it one by one, and are seen to together.
                await trio.sleep_until(looked_at + SHORTEST_S)

    async def _heed(self, told: AsyncIterator[str]) -> None:
        async for _ in told:
            self._wake.set()

    async def _look(self, nursery: trio.Nursery, reporter: Reporter) -> float:
        """Start all deliveries that there is something for and room for; return the seconds until the next look."""
        settings = Settings.of(self._context.config)
        daemon = self._context.daemon()
        held = [delivery.event.id for delivery in self._held if delivery.lease == daemon]
        try:
            taken = await self._context.store.write(outbox.take, daemon, held, self._room(settings))
        except LeaseLost:
            # This daemon has not registered yet, or has to do it anew: that takes a moment, and tells nobody.
            return REGISTER_S
        except StoreUnavailable as error:
            log.warning("webhook events cannot be looked for", error=str(error))
            return AGAIN_S
        for delivery in taken.deliveries:
            self._held.add(delivery)
            self._sending.add(delivery)
            nursery.start_soon(self._deliver, delivery, reporter)
        return LOOK_S if taken.next_in is None else min(LOOK_S, max(SHORTEST_S, taken.next_in))

    def _room(self, settings: Settings) -> Room:
        """Return what may be taken now. Webhooks that fail have half of the places at most: they hold them for long."""
        failing = sum(delivery.webhook.failing for delivery in self._sending)
        return Room(
            max(0, settings.concurrency - len(self._sending)),
            max(0, (settings.concurrency + 1) // 2 - failing),
            settings.endpoint_concurrency,
        )

    async def _deliver(self, delivery: Delivery, reporter: Reporter) -> None:
        settings = Settings.of(self._context.config)
        done = await attempt(delivery.webhook, delivery.event, settings, self._resolve)
        self._sending.discard(delivery)
        self._wake.set()
        wait = None
        if not done.delivered:
            tries = delivery.event.tries + 1
            wait = next_wait(tries, settings, chance=random.random(), retry_after=done.retry_after)
        event = await reporter.report(Report(delivery, done, wait))
        self._held.discard(delivery)
        self._wake.set()
        self._counts.count(event, done)
        _tell(event, done, wait)


def _tell(event: Event | None, done: Attempt, wait: float | None) -> None:
    """Log what came of an attempt; never the URL, which may hold a secret of its owner's."""
    if event is None:
        log.info("webhook event was taken over meanwhile")
        return
    what = {"event_id": event.id, "type": event.type, "account": event.account_id, "attempt": event.attempts}
    outcome = {"status": done.status_code, "error": done.error, "ms": done.duration_ms}
    if event.status == outbox.DELIVERED:
        log.info("webhook delivered", **what, **outcome)
    elif event.status == outbox.PENDING:
        log.info("webhook attempt failed", **what, **outcome, again_in=round(wait or 0, 1))
    else:
        log.warning("webhook not delivered", **what, **outcome, state=event.status)
