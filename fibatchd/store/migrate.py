"""Migrations: numbered, forward only, one sequence for each owner (the core, each plugin), run at start.

A migration is SQL text with one form for each dialect. It runs in a transaction together with the note that it ran.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from fibatchd.errors import StoreTooNew
from fibatchd.store.interface import NOW, Query, Script

_NAME = re.compile(r"(\d{4})_\w+\.(sqlite|postgresql)\.sql")

CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS migrations (
    owner TEXT NOT NULL, version INTEGER NOT NULL, applied_at DOUBLE PRECISION NOT NULL, PRIMARY KEY (owner, version))
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of one owner's schema: its number, counted from 1, and its SQL by dialect (`sqlite`, `postgresql`)."""

    owner: str
    version: int
    sql: dict[str, str]


def from_package(owner: str, package: str) -> list[Migration]:
    """Return the migrations in a package's files `0001_name.sqlite.sql`, `0001_name.postgresql.sql`, …, in order."""
    found: dict[int, dict[str, str]] = {}
    for file in resources.files(package).iterdir():
        if match := _NAME.fullmatch(file.name):
            found.setdefault(int(match[1]), {})[match[2]] = file.read_text(encoding="utf-8")
    return [Migration(owner, version, sql) for version, sql in sorted(found.items())]


def core() -> list[Migration]:
    """Return the core's own migrations."""
    return from_package("core", "fibatchd.store.migrations")


def pending(migrations: Sequence[Migration]) -> Script[list[Migration]]:
    """Return those that have not run. Raises StoreTooNew where the database has run some that we do not know."""
    yield Query(CREATE_TABLE)
    rows = yield Query("SELECT owner, version FROM migrations")
    done = {(owner, version) for owner, version in rows}
    known = {(m.owner, m.version) for m in migrations}
    owners = {m.owner for m in migrations}
    newer = sorted(f"{owner} {version}" for owner, version in done - known if owner in owners)
    if newer:
        raise StoreTooNew(
            f"the database was migrated by a newer fibatchd (unknown: {', '.join(newer)}); install that one"
        )
    return [m for m in migrations if (m.owner, m.version) not in done]


def statements(sql: str) -> list[str]:
    """Split a migration's text at the semicolons that end its lines."""
    return [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", sql) if part.strip()]


def apply(migration: Migration, dialect: str) -> Script[None]:
    """Run one migration and note it."""
    for statement in statements(migration.sql[dialect]):
        yield Query(statement)
    ((now,),) = yield NOW
    yield Query(
        "INSERT INTO migrations (owner, version, applied_at) VALUES (?, ?, ?)",
        (migration.owner, migration.version, now),
    )
