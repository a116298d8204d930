"""Scripts on events: written where a batch ends, leased to be delivered, listed with what came of it.

An event goes to its account's webhook as that is at each attempt. A lease is a daemon's id; whose row in `daemons` is gone
holds nothing any more, so that what a dead daemon was delivering is free as soon as it is taken over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from fibatchd.plugin_api import NOW, Batch, Many, Notify, Query, Row, Script, new_id, one, pass_fence

from . import registry
from .registry import Webhook

CHANNEL = "webhooks"
LATE_S = 60.0
PREFIX = "evt_"
TEST_TYPE = "batch_webhook.test"

PENDING = "pending"
DELIVERED = "delivered"
FAILED = "failed"
ABANDONED = "abandoned"

GONE = "The endpoint answered 410 Gone"

MOST_ATTEMPTS_KEPT = 32
"""Attempts of one event that are listed: redelivered again and again, it forgets its oldest."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event; field names are columns. Times are Unix seconds, `data` is JSON text.

    status    pending, delivered, failed (no attempt is left) or abandoned (there is no webhook, or it is disabled)
    attempts  all attempts so far; `tries` are those since it became pending
    due_at    when the next attempt is due, while it is pending
    """

    id: str
    account_id: str
    type: str
    created_at: float
    data: str
    status: str
    attempts: int
    tries: int
    due_at: float | None

    def body(self) -> bytes:
        """Return what is sent: the same bytes at each attempt."""
        return msgspec.json.encode(
            {
                "id": self.id,
                "object": "event",
                "type": self.type,
                "created_at": int(self.created_at),
                "data": msgspec.Raw(self.data.encode()),
            }
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of one request: a status code, or the class of the error that there was instead.

    at           Unix seconds, by this machine's clock
    retry_after  seconds that the receiver asked to wait, if it did
    """

    at: float
    status_code: int | None
    error: str | None
    duration_ms: int
    retry_after: float | None = None

    @property
    def delivered(self) -> bool:
        """Whether the receiver has the event: 2xx, and nothing else, says so."""
        return self.status_code is not None and 200 <= self.status_code < 300

    @property
    def gone(self) -> bool:
        """Whether the receiver wants no more events at all."""
        return self.status_code == 410


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event in the hands of one daemon, and where it goes."""

    event: Event
    webhook: Webhook
    lease: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What was leased, and in how many seconds the next event is due that was not due yet; None: none is known."""

    deliveries: list[Delivery]
    next_in: float | None


COLUMNS = ", ".join(field.name for field in fields(Event))


def add(account_id: str, type_: str, data: Any) -> Script[Event | None]:
    """Write an event, due at once, if the account has a webhook; abandoned already where that is disabled."""
    ((now,),) = yield NOW
    row = one(
        (
            yield Query(
                "SELECT w.disabled_at FROM webhooks w JOIN accounts a ON a.id = w.account_id "
                "WHERE w.account_id = ? AND a.status <> 'deleted'",
                (account_id,),
            )
        )
    )
    if row is None:
        return None
    status, due_at = (PENDING, now) if row[0] is None else (ABANDONED, None)
    text = msgspec.json.encode(data).decode()
    event = Event(new_id(PREFIX), account_id, type_, now, text, status, 0, 0, due_at)
    yield from _insert(event)
    if due_at is not None:
        yield Notify(CHANNEL)
    return event


def batch_ended(batch: Batch, type_: str) -> Script[None]:
    """Write the event of a batch's end, in the transaction that ends it. It names the batch, and nothing of what is in
    it."""
    yield from add(batch.account_id, type_, {"id": batch.id})


_SORT_OUT = """
UPDATE webhook_events SET lease = NULL WHERE lease IS NOT NULL
AND (lease = ? AND NOT id = ANY(?) OR NOT EXISTS (SELECT 1 FROM daemons d WHERE d.id = webhook_events.lease))
"""
# From one account's queue to the next, and in each from event to event, as far as it has places: what else waits there is not
# looked at. Leased events come first in their queue, and so take up its places.
_DUE = """
WITH RECURSIVE owners(account_id) AS (
    SELECT MIN(account_id) FROM webhook_events WHERE due_at IS NOT NULL AND lease IS NULL
    UNION ALL
    SELECT (SELECT MIN(e.account_id) FROM webhook_events e
        WHERE e.due_at IS NOT NULL AND e.lease IS NULL AND e.account_id > o.account_id)
    FROM owners o WHERE o.account_id IS NOT NULL
), heads(account_id, failing, id, due_at, place) AS (
    SELECT o.account_id, COALESCE(w.failing, 0), e.id, e.due_at,
        1 + (SELECT COUNT(*) FROM webhook_events t WHERE t.account_id = o.account_id AND t.lease IS NOT NULL)
    FROM owners o LEFT JOIN webhooks w ON w.account_id = o.account_id JOIN webhook_events e ON e.id = (
        SELECT n.id FROM webhook_events n WHERE n.account_id = o.account_id AND n.lease IS NULL AND n.due_at <= ?
        ORDER BY n.due_at, n.id LIMIT 1)
    UNION ALL
    SELECT h.account_id, h.failing, e.id, e.due_at, h.place + 1
    FROM heads h JOIN webhook_events e ON e.id = (
        SELECT n.id FROM webhook_events n WHERE n.account_id = h.account_id AND n.lease IS NULL AND n.due_at <= ?
        AND (n.due_at, n.id) > (h.due_at, h.id) ORDER BY n.due_at, n.id LIMIT 1)
    WHERE h.failing = 0 AND h.place < ?
)
SELECT id, failing FROM heads WHERE place <= CASE WHEN failing = 1 THEN 1 ELSE ? END ORDER BY failing, place, due_at LIMIT ?
"""
_LEASE = f"""
UPDATE webhook_events SET lease = ? WHERE id IN (SELECT id FROM webhook_events WHERE id = ANY(?)
    AND lease IS NULL AND due_at <= ? ORDER BY id FOR UPDATE SKIP LOCKED) RETURNING {COLUMNS}
"""


@dataclass(frozen=True, slots=True)
class Room:
    """How many events may be taken: in all, of webhooks whose last delivery failed, and (counting those that are on their
    way, over all daemons) of one webhook. One that fails has its events delivered one by one."""

    total: int
    failing: int
    each: int


def take(daemon: int, held: Sequence[str], room: Room) -> Script[Taken]:
    """Lease events that are due, within `room`; those of webhooks that work come first.

    `held` are the events that this daemon is delivering: what else is leased to it, it does not know of (a commit of which
    it never heard), and that is free again. Raises LeaseLost.
    """
    now = yield from pass_fence(daemon)
    yield Query(_SORT_OUT, (daemon, list(held)))
    rows: list[Row] = []
    due = yield Query(_DUE, (now, now, room.each, room.each, room.total))
    good = [event_id for event_id, failing in due if not failing]
    failing = [event_id for event_id, failing in due if failing]
    if chosen := good + failing[: room.failing]:
        rows = yield Query(_LEASE, (daemon, chosen, now))
    events = sorted((Event(*row) for row in rows), key=lambda event: (event.due_at, event.id))
    deliveries = yield from _with_webhooks(events, daemon)
    ((soonest,),) = yield Query("SELECT MIN(due_at) FROM webhook_events WHERE due_at > ?", (now,))
    return Taken(deliveries, None if soonest is None else soonest - now)


def _with_webhooks(events: Sequence[Event], daemon: int) -> Script[list[Delivery]]:
    """Join leased events with where they go; one that was added while its webhook went is abandoned."""
    owners = sorted({event.account_id for event in events})
    rows = yield Query(
        f"SELECT {registry.COLUMNS} FROM webhooks WHERE account_id = ANY(?) AND disabled_at IS NULL", (owners,)
    )
    webhooks = {webhook.account_id: webhook for webhook in map(registry.webhook_from, rows)}
    if stranded := [event.id for event in events if event.account_id not in webhooks]:
        yield Query(
            "UPDATE webhook_events SET status = ?, due_at = NULL, lease = NULL WHERE id = ANY(?)", (ABANDONED, stranded)
        )
    return [Delivery(e, webhooks[e.account_id], daemon) for e in events if e.account_id in webhooks]


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a delivery, and in how many seconds it is to be tried again if it failed; None: no more."""

    delivery: Delivery
    attempt: Attempt
    wait: float | None


_RECORD = f"""
UPDATE webhook_events SET status = ?, due_at = ?, lease = NULL, attempts = attempts + 1, tries = tries + 1
WHERE id = ? AND lease = ? RETURNING {COLUMNS}
"""


def record(reports: Sequence[Report]) -> Script[dict[str, Event]]:
    """Record attempts, a group of them, and give their events back. Returns the events as they are then, by id; those are
    missing that are no longer this daemon's to record: taken over, or removed."""
    # Webhooks before events and both in one order, so that two groups never wait for each other.
    changed = {
        r.delivery.webhook: r for r in reports if r.attempt.gone or r.attempt.delivered is r.delivery.webhook.failing
    }
    if changed:
        yield from registry.note_outcomes({webhook: not r.attempt.delivered for webhook, r in changed.items()})
    ((now,),) = yield NOW
    rows = yield Many(_RECORD, [_outcome(report, now) for report in sorted(reports, key=lambda r: r.delivery.event.id)])
    events = {event.id: event for event in (Event(*row) for row in rows)}
    kept = [report for report in reports if report.delivery.event.id in events]
    yield from _note_attempts([(events[report.delivery.event.id], report.attempt) for report in kept])
    for report in kept:
        if report.attempt.gone:
            event = report.delivery.event
            yield from registry.disable(report.delivery.webhook, GONE)
            events[event.id] = (yield from get(event.account_id, event.id)) or event
    return events


def _outcome(report: Report, now: float) -> Row:
    event_id, lease = report.delivery.event.id, report.delivery.lease
    if report.attempt.delivered:
        return DELIVERED, None, event_id, lease
    if report.wait is None:
        return FAILED, None, event_id, lease
    return PENDING, now + report.wait, event_id, lease


def test_event(account_id: str, now: float) -> Event:
    """Return an event that tests an account's webhook. It is sent before it is stored: nobody else is to deliver it."""
    return Event(new_id(PREFIX), account_id, TEST_TYPE, now, "{}", PENDING, 0, 0, None)


def record_test(webhook: Webhook, event: Event, attempt: Attempt) -> Script[Event]:
    """Store a test's event with what came of its one attempt, and return it as it is then."""
    if attempt.delivered is webhook.failing:
        yield from registry.note_outcomes({webhook: not attempt.delivered})
    event = replace(event, status=DELIVERED if attempt.delivered else FAILED, attempts=1, tries=1)
    yield from _insert(event)
    yield from _note_attempts([(event, attempt)])
    if attempt.gone:
        yield from registry.disable(webhook, GONE)
    return event


def _insert(event: Event) -> Script[None]:
    marks = ", ".join("?" * len(fields(Event)))
    values = tuple(getattr(event, field.name) for field in fields(Event))
    yield Query(f"INSERT INTO webhook_events ({COLUMNS}) VALUES ({marks})", values)


def _note_attempts(made: Sequence[tuple[Event, Attempt]]) -> Script[None]:
    """Store attempts, each as its event's latest."""
    if made:
        yield Many(
            "INSERT INTO webhook_attempts (event_id, number, at, status_code, error, duration_ms) VALUES (?, ?, ?, ?, ?, ?)",
            [(e.id, e.attempts, a.at, a.status_code, a.error, a.duration_ms) for e, a in made],
        )
    if full := [
        (event.id, event.attempts - MOST_ATTEMPTS_KEPT) for event, _ in made if event.attempts > MOST_ATTEMPTS_KEPT
    ]:
        yield Many("DELETE FROM webhook_attempts WHERE event_id = ? AND number <= ?", full)


def get(account_id: str, event_id: str) -> Script[Event | None]:
    """Return an account's event, None where it has none of that id."""
    row = one(
        (yield Query(f"SELECT {COLUMNS} FROM webhook_events WHERE id = ? AND account_id = ?", (event_id, account_id)))
    )
    return Event(*row) if row else None


def redeliver(account_id: str, event_id: str) -> Script[Event | None]:
    """Have an event delivered again, at once and with all attempts before it; one that is on its way stays as it is.

    Returns it as it is then, None where the account has none of that id.
    """
    ((now,),) = yield NOW
    yield Query(
        "UPDATE webhook_events SET status = ?, due_at = ?, tries = 0 WHERE id = ? AND account_id = ? AND lease IS NULL",
        (PENDING, now, event_id, account_id),
    )
    yield Notify(CHANNEL)
    return (yield from get(account_id, event_id))


def page(
    account_id: str, *, after: str | None, limit: int
) -> Script[tuple[list[Event], dict[str, list[Attempt]], bool]]:
    """Return up to `limit` of an account's events, newest first, the attempts of each, and whether more follow. A cursor
    is compared, not looked up."""
    rows = yield Query(
        f"SELECT {COLUMNS} FROM webhook_events WHERE account_id = ? {'AND id < ?' if after is not None else ''} "
        "ORDER BY id DESC LIMIT ?",
        (account_id, *([after] if after is not None else []), limit + 1),
    )
    events = [Event(*row) for row in rows[:limit]]
    return events, (yield from attempts_of([event.id for event in events])), len(rows) > limit


def attempts_of(event_ids: Sequence[str]) -> Script[dict[str, list[Attempt]]]:
    """Return the attempts at events, in order, by event."""
    found: dict[str, list[Attempt]] = {event_id: [] for event_id in event_ids}
    rows = yield Query(
        "SELECT event_id, at, status_code, error, duration_ms FROM webhook_attempts WHERE event_id = ANY(?) "
        "ORDER BY event_id, number",
        (list(event_ids),),
    )
    for event_id, *attempt in rows:
        found[event_id].append(Attempt(*attempt))
    return found


def sweep(retention_s: float, limit: int) -> Script[int]:
    """Remove up to `limit` events whose time is over and as many whose account was deleted, and such accounts' webhooks;
    return how many events it was: `limit` or more while there may be others. Events that were never tried are due; those
    that are not were made by a clock that was ahead."""
    ((now,),) = yield NOW
    yield Query("UPDATE webhook_events SET due_at = ? WHERE due_at > ? AND tries = 0", (now, now + LATE_S))
    yield Query(
        "DELETE FROM webhooks WHERE account_id IN (SELECT w.account_id FROM accounts a "
        "JOIN webhooks w ON w.account_id = a.id WHERE a.status = 'deleted')"
    )
    old = yield Query(
        "SELECT id FROM webhook_events WHERE created_at <= ? AND due_at IS NULL LIMIT ? FOR UPDATE SKIP LOCKED",
        (now - retention_s, limit),
    )
    orphans = yield Query(
        "SELECT e.id FROM accounts a JOIN webhook_events e ON e.account_id = a.id WHERE a.status = 'deleted' LIMIT ?",
        (limit,),
    )
    ids = sorted({event_id for (event_id,) in old + orphans})
    yield Query("DELETE FROM webhook_attempts WHERE event_id = ANY(?)", (ids,))
    yield Query("DELETE FROM webhook_events WHERE id = ANY(?)", (ids,))
    return len(ids)
