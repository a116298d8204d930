"""Scripts that read what was spent: of one account, or of all together, by UTC day, model and way."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from fibatchd.store.interface import NOW, Query, Rows, Script
from fibatchd.store.spending import Spent, utc_day

_SUMS = ", ".join(
    f"CAST(SUM({column}) AS BIGINT)"
    for column in ("attempts", "input_tokens", "cached_tokens", "output_tokens", "cost", "cost_unknown")
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums of the UTC day `today` by model and by way, and of the last days by date, today first; a day on which nothing
    was spent is there, too. `now` is the store's time."""

    now: float
    today: str
    models: dict[str, Spent]
    ways: dict[str, Spent]
    days: dict[str, Spent]

    @property
    def spent_today(self) -> Spent:
        """Return the sum of today."""
        return self.days[self.today]


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """What one account spent on one day."""

    account_id: str
    name: str
    tier: str
    spent: Spent


def usage(account_id: str | None, days: int) -> Script[Usage]:
    """Return an account's usage of the last `days` days, today included; None is all accounts together."""
    ((now,),) = yield NOW
    today = utc_day(now)
    dates = last_days(today, days)
    where, owner = ("", ()) if account_id is None else ("account_id = ? AND ", (account_id,))
    by_day = yield Query(f"SELECT day, {_SUMS} FROM spending WHERE {where}day >= ? GROUP BY day", (*owner, dates[-1]))
    parts = yield Query(
        f"SELECT model, way, {_SUMS} FROM spending WHERE {where}day = ? GROUP BY model, way", (*owner, today)
    )
    found = {day: Spent(*sums) for day, *sums in by_day}
    return Usage(now, today, _summed(parts, 0), _summed(parts, 1), {day: found.get(day, Spent()) for day in dates})


def by_account(day: str, *, after: str, limit: int) -> Script[tuple[list[AccountUsage], bool]]:
    """Return what accounts spent on a day, by account id, those behind the id `after`, and whether more follow."""
    rows = yield Query(
        f"SELECT s.account_id, a.name, a.tier, {_SUMS} FROM spending s JOIN accounts a ON a.id = s.account_id "
        "WHERE s.day = ? AND s.account_id > ? GROUP BY s.account_id, a.name, a.tier ORDER BY s.account_id LIMIT ?",
        (day, after, limit + 1),
    )
    found = [AccountUsage(account_id, name, tier, Spent(*sums)) for account_id, name, tier, *sums in rows[:limit]]
    return found, len(rows) > limit


def last_days(today: str, count: int) -> Sequence[str]:
    """Return `count` dates up to `today`, the latest first."""
    last = datetime.date.fromisoformat(today)
    return [(last - datetime.timedelta(days=back)).isoformat() for back in range(count)]


def _summed(rows: Rows, column: int) -> dict[str, Spent]:
    sums: dict[str, Spent] = {}
    for row in rows:
        sums.setdefault(row[column], Spent()).add(Spent(*row[2:]))
    return sums
