"""Leases: which daemon runs what, until when.

A running request and a job in hand name a daemon's row, and that row holds the deadline; so a daemon renews all it runs
with one statement, and an id is never used again, which makes it the epoch that a late result is refused by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from fibatchd.domain.requests import Claimed, Failure
from fibatchd.store import spending
from fibatchd.store.ending import Policy, finish_if_done
from fibatchd.store.fence import pass_fence
from fibatchd.store.interface import NOW, Many, Notify, Query, Row, Script

LEASE_S = 15.0
"""How long a lease holds after its last renewal; with a sweep every few seconds, what a dead daemon ran is free in less
than 30 s."""

TAKE_OVER_CHUNK = 500

LOST_MESSAGE = "The server that ran the request stopped before its answer was recorded"


def register(name: str, models: Sequence[str] = ()) -> Script[int]:
    """Begin to hold leases, and publish which models this daemon has; return its id, larger than any before."""
    ((daemon,),) = yield Query("UPDATE sequences SET next = next + 1 WHERE name = 'daemons' RETURNING next - 1")
    ((now,),) = yield NOW
    yield Query(
        "INSERT INTO daemons (id, name, started_at, deadline, models) VALUES (?, ?, ?, ?, ?)",
        (daemon, name, now, now + LEASE_S, _json(models)),
    )
    return int(daemon)


@dataclass(frozen=True, slots=True)
class Peers:
    """What a renewal tells: whether the lease still holds, how many other daemons live, the interactive requests in flight
    there, by model, and the time by the store's clock."""

    held: bool
    others: int
    interactive: dict[str, int]
    now: float


def renew(daemon: int, interactive: Mapping[str, int], models: Sequence[str] = ()) -> Script[Peers]:
    """Renew all leases of this daemon, and publish its interactive requests in flight by model, and which models it has.

    They may be past their deadline, for until another daemon takes them over nobody else runs what they are for: so an
    outage of the database, however long, costs no attempt.
    """
    ((now,),) = yield NOW
    rows = yield Query(
        "UPDATE daemons SET deadline = ?, interactive = ?, models = ? WHERE id = ? AND deadline > 0 RETURNING id",
        (now + LEASE_S, _json(interactive), _json(models), daemon),
    )
    others = yield Query("SELECT interactive FROM daemons WHERE id <> ? AND deadline > ?", (daemon, now))
    total: dict[str, int] = {}
    for (text,) in others:
        for model, count in msgspec.json.decode(text, type=dict[str, int]).items():
            total[model] = total.get(model, 0) + count
    return Peers(bool(rows), len(others), total, now)


def others_have(model: str, daemon: int) -> Script[bool]:
    """Whether a model is in the configuration of another daemon, one that lives."""
    ((now,),) = yield NOW
    rows = yield Query("SELECT models FROM daemons WHERE id <> ? AND deadline > ?", (daemon, now))
    return any(model in msgspec.json.decode(text, type=list[str]) for (text,) in rows)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_IS_LOST = "(deadline <= ? OR deadline > ?)"


def _lost(now: float) -> tuple[float, float]:
    """Return between which deadlines a daemon lives. One that is further off than a renewal can set it was set by a clock
    that has been set back since, and whoever lives has renewed it a second later."""
    return now, now + 2 * LEASE_S


def lost_daemons(*, all_of_them: bool = False) -> Script[tuple[list[int], float]]:
    """Return daemons whose deadline has passed, and the store's time; or all of them, for a store that one daemon alone may
    use, at its start."""
    ((now,),) = yield NOW
    rows = yield Query(f"SELECT id FROM daemons WHERE {_IS_LOST} OR ? = 1 ORDER BY id", (*_lost(now), int(all_of_them)))
    return [daemon for (daemon,) in rows], now


def seize(daemon: int) -> Script[bool]:
    """Take its leases from a daemon whose deadline has passed, for good. False where it renewed them meanwhile."""
    ((now,),) = yield NOW
    # No time is before 0: neither a renewal nor a claim that began earlier gets past this any more.
    rows = yield Query(
        f"UPDATE daemons SET deadline = 0 WHERE id = ? AND {_IS_LOST} RETURNING id", (daemon, *_lost(now))
    )
    return bool(rows)


def forget(daemon: int) -> Script[bool]:
    """Remove the row of a daemon that runs no request any more; the jobs and places that it holds are free again. False
    where it was forgotten before."""
    # First of all: it waits for whoever is passing the fence.
    known = yield Query("DELETE FROM daemons WHERE id = ? RETURNING id", (daemon,))
    for (model,) in (yield Query("DELETE FROM places WHERE daemon = ? AND held > 0 RETURNING model", (daemon,))):
        yield Notify("places", f"{daemon} {model}")
    yield Query("DELETE FROM places WHERE daemon = ?", (daemon,))
    for (kind,) in (yield Query("UPDATE jobs SET lease = NULL WHERE lease = ? RETURNING kind", (daemon,))):
        yield Notify("jobs", kind)
    return bool(known)


@dataclass(frozen=True, slots=True)
class Holding:
    """A request that a daemon holds by its lease, and the attempt that it is at."""

    number: int
    attempt: int
    lane: int
    batch_id: str
    account_id: str

    def as_claimed(self, daemon: int, model: str) -> Claimed:
        """Return it as a claim of that daemon, good for giving back and not for running."""
        return Claimed(
            self.number, self.attempt, daemon, self.lane, self.batch_id, self.account_id, "", model, "", None, b""
        )


def holdings(daemon: int, model: str) -> Script[list[Holding]]:
    """Return what a daemon holds of a model, for one that is not sure what it has claimed. It first waits for claims of
    its own whose commit got no answer and which the database may still be working on."""
    yield Query("SELECT 1 FROM daemons WHERE id = ? FOR UPDATE", (daemon,))
    rows = yield Query(
        "SELECT r.number, r.attempts, l.id, l.batch_id, l.account_id FROM requests r JOIN lanes l ON l.id = r.lane "
        "WHERE r.lease = ? AND l.model = ?",
        (daemon, model),
    )
    return [Holding(*row) for row in rows]


_HELD = "SELECT r.number, l.batch_id FROM requests r JOIN lanes l ON l.id = r.lane WHERE r.lease = ? LIMIT ?"
_LOST = """
SELECT r.number, r.attempts, l.id, b.id, b.account_id, l.model, b.closed_as
FROM requests r JOIN lanes l ON l.id = r.lane JOIN batches b ON b.id = l.batch_id
WHERE r.number = ANY(?) AND r.lease = ? ORDER BY b.id, r.number
"""


def take_over(daemon: int, max_attempts: int, policy: Policy) -> Script[int]:
    """Queue again what a lost daemon ran, up to a chunk; call until it returns 0, then `forget` it.

    The attempts count and their cost is unknown, for nobody can tell what was sent; at `max_attempts` a request fails.
    """
    rows = yield Query("SELECT id FROM daemons WHERE id = ? FOR UPDATE", (daemon,))
    if not rows:
        return 0
    # No time is before 0: neither a renewal nor a claim that began before the deadline gets past this any more.
    yield Query("UPDATE daemons SET deadline = 0 WHERE id = ?", (daemon,))
    for (kind,) in (yield Query("UPDATE jobs SET lease = NULL WHERE lease = ? RETURNING kind", (daemon,))):
        yield Notify("jobs", kind)
    held = yield Query(_HELD, (daemon, TAKE_OVER_CHUNK))
    batch_ids = sorted({batch_id for _, batch_id in held})
    yield Query("SELECT 1 FROM batches WHERE id = ANY(?) ORDER BY id FOR UPDATE", (batch_ids,))
    # Read under the lock: until then the daemon might still record, and the batches be closed.
    lost = yield Query(_LOST, ([number for number, _ in held], daemon))
    if lost:
        ((now,),) = yield NOW
        yield from _requeue(daemon, lost, max_attempts, now)
        yield from _count_lost(lost, max_attempts, now)
        yield from finish_if_done(batch_ids, policy, now)
    return len(held)


def _requeue(daemon: int, lost: list[Row], max_attempts: int, now: float) -> Script[None]:
    failure = Failure("upstream_error", LOST_MESSAGE, 502)
    yield Many(
        "UPDATE requests SET status = ?, lease = NULL, due_at = 0, ended_at = ?, error_code = ?, error_message = ?, "
        "error_status = ? WHERE number = ? AND lease = ?",
        [
            ("failed" if tries >= max_attempts else "queued", now if tries >= max_attempts else None,
             *failure.columns(), number, daemon)
            for number, tries, *_ in lost
        ],
    )  # fmt: skip


def _count_lost(lost: list[Row], max_attempts: int, now: float) -> Script[None]:
    batches: dict[str, list[int]] = {}
    lanes: dict[int, int] = {}
    models: set[str] = set()
    books = spending.Books()
    for _, tries, lane, batch_id, account_id, model, closed_as in lost:
        # running, queued, failed, cancelled, expired, in the order of the statement below
        counts = batches.setdefault(batch_id, [0, 0, 0, 0, 0])
        counts[0] += 1
        over = tries >= max_attempts
        ends = "failed" if over else closed_as or "queued"
        counts[["running", "queued", "failed", "cancelled", "expired"].index(ends)] += 1
        if ends == "queued":
            lanes[lane] = lanes.get(lane, 0) + 1
            models.add(model)
        spent = books.on(account_id, model, spending.BATCH)
        spent.attempts += 1
        spent.cost_unknown += 1
    yield Many(
        "UPDATE batches SET running = running - ?, cost_unknown = cost_unknown + ?, queued = queued + ?, "
        "failed = failed + ?, cancelled = cancelled + ?, expired = expired + ? WHERE id = ?",
        [(c[0], *c, batch_id) for batch_id, c in batches.items()],
    )
    if lanes:
        yield Many("UPDATE lanes SET queued = queued + ? WHERE id = ?", [(n, lane) for lane, n in lanes.items()])
    yield from spending.add(books, now)
    for model in sorted(models):
        yield Notify("work", model)


@dataclass(frozen=True, slots=True)
class Places:
    """Of a model's places at the upstream: how many this daemon may use from now on, and how many others hold."""

    granted: int
    others: int


def hold_places(daemon: int, model: str, wanted: int, limit: int, *, in_use: int = 0) -> Script[Places]:
    """Ask for `wanted` of a model's `limit` places, counted over all daemons. Below `in_use`, nothing more may start
    until so many have ended.

    What others hold is never taken from them here, and places in use stay held: so the sum is within the limit at any
    instant. Who holds more than its share shrinks at its own next call. Others are told (channel "places": the sender's
    id, a space, the model) when a call of theirs would now move places to where they are wanted. Raises LeaseLost.
    """
    yield from pass_fence(daemon)
    yield Query(
        "INSERT INTO places (model, daemon, held, wanted) VALUES (?, 0, 0, 0) ON CONFLICT (model, daemon) DO NOTHING",
        (model,),
    )
    yield Query("SELECT 1 FROM places WHERE model = ? AND daemon = 0 FOR UPDATE", (model,))
    rows = yield Query("SELECT daemon, held, wanted FROM places WHERE model = ? AND daemon <> 0", (model,))
    held_before, wanted_before = next(((held, want) for who, held, want in rows if who == daemon), (0, 0))
    others = [(held, want) for who, held, want in rows if who != daemon]
    taken = sum(held for held, _ in others)
    share = _share(limit, [wanted, *(want for _, want in others)])
    granted: int = min(wanted, max(0, limit - taken), share)
    held = max(granted, in_use)
    yield Query(
        "INSERT INTO places (model, daemon, held, wanted) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (model, daemon) DO UPDATE SET held = excluded.held, wanted = excluded.wanted",
        (model, daemon, held, wanted),
    )
    left_some = held < held_before and any(mine < min(want, share) for mine, want in others)
    lacks_some = granted < min(wanted, share) and any(mine > min(want, share) for mine, want in others)
    # Once, not at each call: what others hold was in use when they asked for it, and may not be any more.
    wants_more = granted < wanted and wanted_before < wanted and taken > 0
    if left_some or lacks_some or wants_more:
        yield Notify("places", f"{daemon} {model}")
    return Places(granted, taken)


def _share(limit: int, wants: list[int]) -> int:
    """Return the most that anyone may hold: those who want little have it, the others share the rest evenly. Rounded
    up, so that no place stays empty; who comes first has the odd ones."""
    left = limit
    for index, want in enumerate(sorted(wants)):
        share = -(-left // (len(wants) - index))
        if want >= share:
            return share
        left -= want
    return limit
