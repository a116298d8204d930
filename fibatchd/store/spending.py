"""Scripts on what accounts have spent: the daily quota's books, one row for each account, UTC day, model and way."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

from fibatchd.domain.requests import Usage
from fibatchd.store.interface import NOW, Many, Query, Script

BATCH = "batch"
INTERACTIVE = "interactive"


def utc_day(now: float) -> str:
    """Return the UTC date of a time in Unix seconds, as `2026-11-29`."""
    return datetime.datetime.fromtimestamp(now, datetime.UTC).date().isoformat()


def seconds_to_midnight(now: float) -> float:
    """Return how long it is until 00:00 UTC, when quotas renew."""
    return 86400 - now % 86400


@dataclass(slots=True)
class Spent:
    """A sum over attempts that ended together; costs in pico-USD."""

    attempts: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    cost_unknown: int = 0

    def note(self, usage: Usage | None, cost: int | None) -> None:
        """Add one attempt; a cost of None cannot be known."""
        self.attempts += 1
        if cost is None:
            self.cost_unknown += 1
        else:
            self.cost += cost
        if usage is not None:
            self.input_tokens += usage.input_tokens
            self.cached_tokens += usage.cached_tokens
            self.output_tokens += usage.output_tokens

    def add(self, part: "Spent") -> None:
        """Add another sum."""
        self.attempts += part.attempts
        self.input_tokens += part.input_tokens
        self.cached_tokens += part.cached_tokens
        self.output_tokens += part.output_tokens
        self.cost += part.cost
        self.cost_unknown += part.cost_unknown


@dataclass(slots=True)
class Books:
    """Sums by (account, model, way), to be added to one day at once."""

    sums: dict[tuple[str, str, str], Spent] = field(default_factory=dict)

    def on(self, account_id: str, model: str, way: str) -> Spent:
        """Return the sum to add to."""
        return self.sums.setdefault((account_id, model, way), Spent())


_ADD = """
INSERT INTO spending (account_id, day, model, way, attempts, input_tokens, cached_tokens, output_tokens, cost, cost_unknown)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (account_id, day, model, way) DO UPDATE SET
    attempts = spending.attempts + excluded.attempts,
    input_tokens = spending.input_tokens + excluded.input_tokens,
    cached_tokens = spending.cached_tokens + excluded.cached_tokens,
    output_tokens = spending.output_tokens + excluded.output_tokens,
    cost = spending.cost + excluded.cost,
    cost_unknown = spending.cost_unknown + excluded.cost_unknown
"""


def add(books: Books, now: float) -> Script[None]:
    """Add sums to the UTC day of `now`."""
    day = utc_day(now)
    rows = [
        (account, day, model, way, s.attempts, s.input_tokens, s.cached_tokens, s.output_tokens, s.cost, s.cost_unknown)
        for (account, model, way), s in sorted(books.sums.items())
    ]
    if rows:
        yield Many(_ADD, rows)


def record_interactive(spent: Sequence[tuple[str, str, Spent]]) -> Script[None]:
    """Add interactive attempts: (account, model, sum) each."""
    ((now,),) = yield NOW
    books = Books()
    for account_id, model, part in spent:
        books.on(account_id, model, INTERACTIVE).add(part)
    yield from add(books, now)


def spent_today(account_id: str) -> Script[tuple[int, float]]:
    """Return the account's spending of this UTC day in pico-USD, and the store's time."""
    ((now,),) = yield NOW
    ((cost,),) = yield Query(
        "SELECT CAST(COALESCE(SUM(cost), 0) AS BIGINT) FROM spending WHERE account_id = ? AND day = ?",
        (account_id, utc_day(now)),
    )
    return int(cost), now
