"""Scripts on batches as their account looks at them: all kinds in one list, with what they wait for.

Ids of different kinds begin differently, and their last 32 characters, a UUIDv7's digits, grow with time; so these order
the list, and are what a cursor is compared by.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fibatchd.domain.batches import Batch
from fibatchd.store.claims import Candidate, of_batches
from fibatchd.store.ending import COLUMNS
from fibatchd.store.interface import Query, Script, one

LEAST_OF_ID = 8

# One look into the index for each lane, however many requests it has, and one statement for all lanes of a page.
_NEXT_DUE = """
SELECT l.id, (SELECT r.due_at FROM requests r WHERE r.lane = l.id AND r.status = 'queued' ORDER BY r.due_at LIMIT 1)
FROM lanes l WHERE l.id = ANY(?)
"""

_ORDER = "substr(id, length(id) - 31)"
_VISIBLE = "account_id = ? AND deleted_at IS NULL AND status <> 'staging'"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which batches are asked for; None: whatever they are. `text` is in the label or the metadata, or, where it is long
    enough for that, in the id or the input file's."""

    statuses: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    model: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A lane with requests that wait, and when the next of them is due by the store's clock (the past: now)."""

    candidate: Candidate
    due_at: float


def page(account_id: str, wanted: Filter, *, after: str | None, limit: int) -> Script[tuple[list[Batch], bool]]:
    """Return up to `limit` of an account's batches of all kinds, newest first, and whether more follow."""
    conditions, values = _conditions(wanted)
    if after is not None:
        conditions.append(f"{_ORDER} < ?")
        values.append(after[-32:])
    where = " AND ".join([_VISIBLE, *conditions])
    rows = yield Query(
        f"SELECT {COLUMNS} FROM batches WHERE {where} ORDER BY {_ORDER} DESC LIMIT ?", (account_id, *values, limit + 1)
    )
    return [Batch(*row) for row in rows[:limit]], len(rows) > limit


def _conditions(wanted: Filter) -> tuple[list[str], list[object]]:
    conditions: list[str] = []
    values: list[object] = []
    for column, accepted in (("status", wanted.statuses), ("source", wanted.sources)):
        if accepted is not None:
            conditions.append(f"{column} = ANY(?)")
            values.append(list(accepted))
    if wanted.model is not None:
        conditions.append("EXISTS (SELECT 1 FROM lanes l WHERE l.batch_id = batches.id AND l.model = ?)")
        values.append(wanted.model)
    if wanted.text is not None:
        condition, patterns = like(("label", "metadata"), ("id", "input_file_id"), wanted.text)
        conditions.append(condition)
        values += patterns
    return conditions, values


def like(columns: Sequence[str], ids: Sequence[str], text: str) -> tuple[str, list[str]]:
    """Return the condition that one of the columns contains a text, and the condition's parameters. Which letters differ by
    their case alone is for the database to say: SQLite knows those of ASCII. A short text is not looked for in ids: their
    hex digits would match by chance."""
    columns = [*columns, *ids] if len(text) >= LEAST_OF_ID else columns
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    condition = " OR ".join(f"LOWER({column}) LIKE LOWER(CAST(? AS TEXT)) ESCAPE '!'" for column in columns)
    return f"({condition})", [f"%{text}%"] * len(columns)


def find(account_id: str, batch_id: str) -> Script[Batch | None]:
    """Return an account's batch, whatever its kind; None where it is another's, deleted or unknown."""
    row = one((yield Query(f"SELECT {COLUMNS} FROM batches WHERE id = ? AND {_VISIBLE}", (batch_id, account_id))))
    return Batch(*row) if row else None


def reruns_of(batch_id: str) -> Script[list[str]]:
    """Return the ids of the batches that run some of its requests again, oldest first."""
    rows = yield Query(
        "SELECT id FROM batches WHERE rerun_of = ? AND deleted_at IS NULL AND status <> 'staging' "
        "ORDER BY created_at, id",
        (batch_id,),
    )
    return [batch_id for (batch_id,) in rows]


def models_of(batch_ids: Sequence[str]) -> Script[dict[str, list[str]]]:
    """Return the models of each of these batches, those that name none left out."""
    rows = yield Query(
        "SELECT batch_id, model FROM lanes WHERE batch_id = ANY(?) AND model <> '' ORDER BY id", (list(batch_ids),)
    )
    models: dict[str, list[str]] = {}
    for batch_id, model in rows:
        models.setdefault(batch_id, []).append(model)
    return models


def waiting_lanes(batch_ids: Sequence[str]) -> Script[tuple[dict[str, list[Waiting]], float]]:
    """Return the lanes of these batches that have requests waiting, by batch, and the store's time."""
    candidates, now = yield from of_batches(batch_ids)
    due: dict[int, float | None] = dict((yield Query(_NEXT_DUE, ([candidate.lane for candidate in candidates],))))
    found: dict[str, list[Waiting]] = {}
    for candidate in candidates:
        found.setdefault(candidate.batch_id, []).append(Waiting(candidate, due.get(candidate.lane) or 0.0))
    return found, now
