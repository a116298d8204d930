"""Scripts that take requests to run. A claim counts the attempt, in the database, before anything is sent.

Whoever claims has looked at the candidates a moment ago; the claim looks again, at those lanes only and in the same
transaction, so that no attempt starts on a key, account, quota or batch that is no longer good.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fibatchd.domain.accounts import Account, Key
from fibatchd.domain.requests import Claimed
from fibatchd.store import transitions
from fibatchd.store.accounts import ACCOUNT_WIDTH, account_from, key_from
from fibatchd.store.fence import pass_fence
from fibatchd.store.interface import NOW, Many, Query, Row, Script
from fibatchd.store.spending import utc_day

CLAIM_BYTES = 32 * 2**20
"""So much the bodies of one claim may take, whatever the count: all of them are in memory at once."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A lane that has queued requests, and all that decides whether they may run. `begun` tells whether the
    batch has had a request claimed already; `spent` is today's, in pico-USD."""

    lane: int
    queued: int
    model: str
    batch_id: str
    endpoint: str
    options: str | None
    begun: bool
    account: Account
    key: Key
    spent: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim gave: the requests; for each lane that gave fewer than asked, when its next retry is due (None where
    nothing of it is left); the lanes that may not run any more; and the time by the store's clock."""

    requests: list[Claimed]
    dry: dict[int, float | None]
    shut: frozenset[int]
    now: float


_CANDIDATES = """
SELECT l.id, l.queued, l.model, b.id, b.endpoint, b.options, b.in_progress_at,
    CAST((SELECT COALESCE(SUM(s.cost), 0) FROM spending s WHERE s.account_id = b.account_id AND s.day = ?) AS BIGINT),
    a.id, a.name, a.tier, a.status, a.quota, a.quota_set, a.created_at,
    k.id, k.account_id, k.prefix, k.created_at, k.expires_at, k.revoked_at, k.models
FROM lanes l JOIN batches b ON b.id = l.batch_id JOIN accounts a ON a.id = b.account_id JOIN keys k ON k.id = b.key_id
WHERE {which} AND l.queued > 0 AND b.prepared = 1 AND b.closed_as IS NULL AND b.deleted_at IS NULL AND b.expires_at > ?
ORDER BY b.id
"""
_OF_MODEL = _CANDIDATES.format(which="l.model = ?")
_OF_BATCHES = _CANDIDATES.format(which="l.batch_id = ANY(?)")
_OF_LANES = _CANDIDATES.format(which="l.id = ANY(?)") + "FOR UPDATE OF b"


def _candidate(row: Row) -> Candidate:
    lane, queued, model, batch_id, endpoint, options, begun_at, spent, *owner = row
    account = account_from(tuple(owner[:ACCOUNT_WIDTH]))
    key = key_from(tuple(owner[ACCOUNT_WIDTH:]))
    return Candidate(lane, queued, model, batch_id, endpoint, options, begun_at is not None, account, key, int(spent))


def candidates(model: str) -> Script[tuple[list[Candidate], float]]:
    """Return a model's lanes with queued requests, oldest batch first, and the store's time."""
    ((now,),) = yield NOW
    rows = yield Query(_OF_MODEL, (utc_day(now), model, now))
    return [_candidate(row) for row in rows], now


def of_batches(batch_ids: Sequence[str]) -> Script[tuple[list[Candidate], float]]:
    """Return the lanes of these batches that have queued requests, and the store's time."""
    ((now,),) = yield NOW
    rows = yield Query(_OF_BATCHES, (utc_day(now), list(batch_ids), now))
    return [_candidate(row) for row in rows], now


def models_with_work() -> Script[list[str]]:
    """Return the models that have queued requests, those that the configuration no longer has included."""
    rows = yield Query("SELECT DISTINCT model FROM lanes WHERE queued > 0")
    return [model for (model,) in rows]


# Materialized, for a planner that ran a locking subquery again for each row would take more than the limit. The bodies
# come with it, since another trip to the database would hold the batch against everybody for longer. How long they are
# both databases know without reading them.
_TAKE = """
WITH due AS MATERIALIZED (
    SELECT number, due_at FROM requests WHERE lane = ? AND status = 'queued' AND due_at <= ?
    ORDER BY due_at DESC, number LIMIT ? FOR UPDATE SKIP LOCKED),
sized AS MATERIALIZED (
    SELECT number, due_at, (SELECT LENGTH(body) FROM request_bodies WHERE request_bodies.number = due.number) AS size
    FROM due),
summed AS (SELECT number, SUM(size) OVER (ORDER BY due_at DESC, number) - size AS before FROM sized)
UPDATE requests SET status = 'running', attempts = attempts + 1, lease = ?, started_at = ?
WHERE number IN (SELECT number FROM summed WHERE before < ?)
RETURNING number, attempts, (SELECT body FROM request_bodies WHERE request_bodies.number = requests.number)
"""
_NEXT_DUE = "SELECT MIN(due_at) FROM requests WHERE lane = ? AND status = 'queued'"


def claim(daemon: int, takes: Sequence[tuple[int, int]], may_run: Callable[[Candidate, float], bool]) -> Script[Claim]:
    """Take up to so many requests from each lane, retries that are due before fresh ones, for this daemon to run; fewer
    where their bodies would be more than CLAIM_BYTES, one of them not counted.

    `may_run` is asked about each lane again. Raises LeaseLost where the daemon's own row is gone or past its deadline.
    """
    now = yield from pass_fence(daemon)
    rows = yield Query(_OF_LANES, (utc_day(now), [lane for lane, _ in takes], now))
    found = {c.lane: c for c in map(_candidate, rows)}
    open_lanes = {lane: c for lane, c in found.items() if may_run(c, now)}
    claimed: list[Claimed] = []
    dry: dict[int, float | None] = {lane: None for lane, _ in takes if lane not in open_lanes}
    left = CLAIM_BYTES
    for lane, count in takes:
        if (candidate := open_lanes.get(lane)) is None or left <= 0:
            continue
        got = yield Query(_TAKE, (lane, now, count, daemon, now, left))
        claimed += [_claimed(candidate, daemon, *row) for row in got]
        left -= sum(len(body) for *_, body in got)
        if len(got) < count:
            ((dry[lane],),) = yield Query(_NEXT_DUE, (lane,))
    if claimed:
        yield from _count(claimed, now)
        begun = {c.batch_id: c.account.id for c in open_lanes.values() if not c.begun}
        for batch_id in sorted(begun.keys() & {c.batch_id for c in claimed}):
            yield transitions.begun(batch_id, begun[batch_id])
    return Claim(claimed, dry, frozenset(found.keys() - open_lanes.keys()), now)


def _claimed(c: Candidate, daemon: int, number: int, attempt: int, body: bytes) -> Claimed:
    return Claimed(
        number,
        attempt,
        daemon,
        c.lane,
        c.batch_id,
        c.account.id,
        c.key.id,
        c.model,
        c.endpoint,
        c.options,
        body,
        c.account.tier,
    )


def _count(claimed: Sequence[Claimed], now: float) -> Script[None]:
    by_lane = Counter(c.lane for c in claimed)
    by_batch = Counter(c.batch_id for c in claimed)
    yield Many("UPDATE lanes SET queued = queued - ? WHERE id = ?", [(n, lane) for lane, n in by_lane.items()])
    yield Many(
        "UPDATE batches SET queued = queued - ?, running = running + ?, in_progress_at = COALESCE(in_progress_at, ?), "
        "status = CASE status WHEN 'validating' THEN 'in_progress' ELSE status END WHERE id = ?",
        [(n, n, now, batch) for batch, n in by_batch.items()],
    )
