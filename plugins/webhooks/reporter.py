"""Records what came of deliveries in groups: while one group is committed, the next one gathers."""

from dataclasses import dataclass, field

import structlog
import trio

from fibatchd.plugin_api import Context, StoreUnavailable

from . import outbox
from .outbox import Event, Report

GROUP_MAX = 200
AGAIN_S = 1.0

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A report on its way, and what is known once it is stored."""

    report: Report
    stored: trio.Event = field(default_factory=trio.Event)
    event: Event | None = None


class Reporter:
    """Takes reports, and has each waited for until it is stored."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pending: list[_Waiting] = []
        self._work = trio.Event()

    async def report(self, report: Report) -> Event | None:
        """Return the event as it is once the report is stored; None where it was another's to report by then."""
        waiting = _Waiting(report)
        self._pending.append(waiting)
        self._work.set()
        await waiting.stored.wait()
        return waiting.event

    async def run(self) -> None:
        """Store reports until cancelled."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while group := self._pending[:GROUP_MAX]:
                del self._pending[: len(group)]
                events = await self._store([waiting.report for waiting in group])
                for waiting in group:
                    waiting.event = events.get(waiting.report.delivery.event.id)
                    waiting.stored.set()

    async def _store(self, reports: list[Report]) -> dict[str, Event]:
        """Store a group, as often as it takes: until then nobody else touches its events while this daemon lives."""
        while True:
            try:
                return await self._context.store.write(outbox.record, reports)
            except StoreUnavailable as error:
                log.warning("webhook attempts cannot be recorded", count=len(reports), error=str(error))
                await trio.sleep(AGAIN_S)
