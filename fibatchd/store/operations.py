"""Scripts for operators: who works on this database and at what, and accounts a page at a time. No content of a user's."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fibatchd.domain.accounts import Account
from fibatchd.store import drains
from fibatchd.store.accounts import account_from
from fibatchd.store.interface import NOW, Query, Script
from fibatchd.store.overview import like
from fibatchd.store.spending import Spent, utc_day
from fibatchd.store.standing import Standing, standing
from fibatchd.store.usage import usage


@dataclass(frozen=True, slots=True)
class Worker:
    """A daemon on this database: when it began, whether its lease holds, which models it has, and how many requests it has
    at each: of batches (claimed or running) and interactive ones."""

    id: int
    name: str
    started_at: float
    is_alive: bool
    models: list[str]
    batch: dict[str, int]
    interactive: dict[str, int]


@dataclass(frozen=True, slots=True)
class Operations:
    """What goes on over all daemons, at the store's time `now`; `today` is what was spent, by model."""

    now: float
    standing: Standing
    workers: list[Worker]
    drained: dict[str, float]
    today: dict[str, Spent]

    def worker(self, daemon: int) -> Worker | None:
        """Return the daemon of this id."""
        return next((worker for worker in self.workers if worker.id == daemon), None)


@dataclass(frozen=True, slots=True)
class Standings:
    """An account, what it has spent today in pico-USD, and how many batches of it are unfinished."""

    account: Account
    spent_today: int
    unfinished: int


def operations() -> Script[Operations]:
    """Return what goes on."""
    ((now,),) = yield NOW
    unfinished = yield from standing()
    found = yield from workers()
    out_of_service = yield from drains.drained()
    spent = yield from usage(None, 1)
    return Operations(now, unfinished, found, out_of_service, spent.models)


def workers() -> Script[list[Worker]]:
    """Return the daemons, those that were lost and not yet forgotten included."""
    ((now,),) = yield NOW
    running = yield Query(
        "SELECT r.lease, l.model, COUNT(*) FROM requests r JOIN lanes l ON l.id = r.lane "
        "WHERE r.lease IS NOT NULL GROUP BY r.lease, l.model"
    )
    batch: dict[int, dict[str, int]] = {}
    for lease, model, count in running:
        batch.setdefault(lease, {})[model] = count
    rows = yield Query("SELECT id, name, started_at, deadline, models, interactive FROM daemons ORDER BY id")
    return [
        Worker(
            id_,
            name,
            started_at,
            deadline > now,
            msgspec.json.decode(models, type=list[str]),
            batch.get(id_, {}),
            msgspec.json.decode(interactive, type=dict[str, int]),
        )
        for id_, name, started_at, deadline, models, interactive in rows
    ]


_ACCOUNTS = """
SELECT a.id, a.name, a.tier, a.status, a.quota, a.quota_set, a.created_at,
    CAST((SELECT COALESCE(SUM(s.cost), 0) FROM spending s WHERE s.account_id = a.id AND s.day = ?) AS BIGINT),
    (SELECT COUNT(*) FROM batches b WHERE b.account_id = a.id AND b.ended_at IS NULL AND b.deleted_at IS NULL
        AND b.status <> 'staging')
FROM accounts a WHERE {where} ORDER BY a.id DESC LIMIT ?
"""


def account(account_id: str) -> Script[Standings | None]:
    """Return an account, None where there is none of that id."""
    found = yield from _accounts(["a.id = ?"], [account_id], 1)
    return found[0] if found else None


def accounts(
    *, after: str | None, limit: int, statuses: Sequence[str] | None, text: str | None
) -> Script[tuple[list[Standings], bool]]:
    """Return up to `limit` accounts, newest first, older than the id `after`, and whether more follow. `text` is in the
    name, or in the id where it is long enough for that."""
    conditions = ["1 = 1"]
    values: list[object] = []
    if after is not None:
        conditions.append("a.id < ?")
        values.append(after)
    if statuses is not None:
        conditions.append("a.status = ANY(?)")
        values.append(list(statuses))
    if text is not None:
        condition, parameters = like(("a.name",), ("a.id",), text)
        conditions.append(condition)
        values += parameters
    found = yield from _accounts(conditions, values, limit + 1)
    return found[:limit], len(found) > limit


def _accounts(conditions: Sequence[str], values: Sequence[object], limit: int) -> Script[list[Standings]]:
    ((now,),) = yield NOW
    rows = yield Query(_ACCOUNTS.format(where=" AND ".join(conditions)), (utc_day(now), *values, limit))
    return [Standings(account_from(row[:-2]), int(row[-2]), int(row[-1])) for row in rows]
