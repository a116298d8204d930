"""The script that records how attempts ended, a group at a time.

A result is accepted only with its lease and attempt number: what another daemon has taken over meanwhile is refused,
one by one. Counters of a batch, of its lanes and of its owner's books are updated once a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fibatchd.domain.requests import Outcome
from fibatchd.store import spending
from fibatchd.store.ending import Policy, finish_if_done
from fibatchd.store.interface import NOW, Insert, Many, Notify, Query, Script

_RECORD = """
UPDATE requests SET status = ?, due_at = ?, lease = NULL, ended_at = ?, request_id = ?,
    error_code = ?, error_message = ?, error_status = ?
WHERE number = ?
"""
_GIVE_BACK = """
UPDATE requests SET status = 'queued', attempts = attempts - 1, lease = NULL, started_at = NULL,
    due_at = COALESCE(?, due_at)
WHERE number = ?
"""


@dataclass(slots=True)
class _Delta:
    """What a group changes in one batch's counters."""

    requeued: int = 0
    ended: int = 0
    completed: int = 0
    failed: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: int = 0
    cost_unknown: int = 0
    lanes: dict[int, int] = field(default_factory=dict)


def record(outcomes: Sequence[Outcome], policy: Policy) -> Script[int]:
    """Record a group of outcomes and end the batches that are over with them. Returns how many were accepted."""
    ((now,),) = yield NOW
    batch_ids = sorted({o.claimed.batch_id for o in outcomes})
    # Locked in one order, so that two groups never wait for each other.
    rows = yield Query("SELECT id, closed_as FROM batches WHERE id = ANY(?) ORDER BY id FOR UPDATE", (batch_ids,))
    closed: dict[str, str | None] = {batch_id: closed_as for batch_id, closed_as in rows}
    kept = yield from _held(outcomes)
    if ended := [_row(outcome, now) for outcome in kept if outcome.sent]:
        yield Many(_RECORD, ended)
    if given_back := [(_due_at(outcome, now), outcome.claimed.number) for outcome in kept if not outcome.sent]:
        yield Many(_GIVE_BACK, given_back)
    answers = [(o.claimed.number, o.answer[0], o.answer[1]) for o in kept if o.answer]
    if answers:
        yield Insert("results", ("number", "status_code", "body"), answers)
    over = yield from _apply(_sum(kept), closed)
    yield from spending.add(_books(kept), now)
    if over:
        yield from finish_if_done(over, policy, now)
    return len(kept)


def _held(outcomes: Sequence[Outcome]) -> Script[list[Outcome]]:
    """Return the outcomes of attempts that still hold their request, one for each. Nothing changes a request while its
    batch is locked, so what is true here stays true until the transaction ends."""
    by_attempt = {(o.claimed.number, o.claimed.lease, o.claimed.attempt): o for o in outcomes}
    numbers = list({o.claimed.number for o in outcomes})
    rows = yield Query("SELECT number, lease, attempts FROM requests WHERE number = ANY(?)", (numbers,))
    return [by_attempt[row] for row in rows if row in by_attempt]


def _due_at(outcome: Outcome, now: float) -> float | None:
    return None if outcome.retry_in is None else now + outcome.retry_in


def _row(outcome: Outcome, now: float) -> tuple[object, ...]:
    failure, due_at = outcome.failure, 0.0
    ended_at: float | None = now
    if outcome.answer:
        status = "completed"
    elif outcome.retry_in is None:
        status = "failed"
    else:
        status, due_at, ended_at = "queued", now + outcome.retry_in, None
    error = failure.columns() if failure else (None, None, None)
    return (status, due_at, ended_at, outcome.request_id, *error, outcome.claimed.number)


def _sum(outcomes: Sequence[Outcome]) -> dict[str, _Delta]:
    deltas: dict[str, _Delta] = {}
    for outcome in outcomes:
        delta = deltas.setdefault(outcome.claimed.batch_id, _Delta())
        delta.ended += 1
        if outcome.answer:
            delta.completed += 1
        elif outcome.sent and outcome.retry_in is None:
            delta.failed += 1
        else:
            delta.requeued += 1
            delta.lanes[outcome.claimed.lane] = delta.lanes.get(outcome.claimed.lane, 0) + 1
        if usage := outcome.usage:
            delta.input_tokens += usage.input_tokens
            delta.cached_tokens += usage.cached_tokens
            delta.output_tokens += usage.output_tokens
            delta.reasoning_tokens += usage.reasoning_tokens
        if outcome.cost is None:
            delta.cost_unknown += 1
        else:
            delta.cost += outcome.cost
    return deltas


_COUNT = """
UPDATE batches SET running = running - ?, completed = completed + ?, failed = failed + ?, queued = queued + ?,
    cancelled = cancelled + ?, expired = expired + ?, input_tokens = input_tokens + ?, cached_tokens = cached_tokens + ?,
    output_tokens = output_tokens + ?, reasoning_tokens = reasoning_tokens + ?, cost = cost + ?,
    cost_unknown = cost_unknown + ?
WHERE id = ? RETURNING id, queued + running
"""


def _apply(deltas: dict[str, _Delta], closed: dict[str, str | None]) -> Script[list[str]]:
    """Add the sums to batches and lanes. In a closed batch nothing is queued again: it ends as the batch was closed. Returns
    the batches of which nothing is left to do."""
    rows, lanes = [], []
    for batch_id, d in deltas.items():
        ends_as = closed.get(batch_id)
        over = {"cancelled": 0, "expired": 0, "failed": 0, None: 0}
        over[ends_as] = d.requeued
        rows.append(
            (
                d.ended,
                d.completed,
                d.failed + over["failed"],
                over[None],
                over["cancelled"],
                over["expired"],
                d.input_tokens,
                d.cached_tokens,
                d.output_tokens,
                d.reasoning_tokens,
                d.cost,
                d.cost_unknown,
                batch_id,
            )
        )
        if ends_as is None:
            lanes += [(count, lane) for lane, count in d.lanes.items()]
    counted = (yield Many(_COUNT, rows)) if rows else []
    if lanes:
        models = yield Many("UPDATE lanes SET queued = queued + ? WHERE id = ? RETURNING model", lanes)
        for (model,) in sorted(set(models)):
            yield Notify("work", model)
    return [batch_id for batch_id, left in counted if not left]


def _books(outcomes: Sequence[Outcome]) -> spending.Books:
    books = spending.Books()
    for outcome in outcomes:
        if outcome.sent:
            claimed = outcome.claimed
            books.on(claimed.account_id, claimed.model, spending.BATCH).note(outcome.usage, outcome.cost)
    return books
