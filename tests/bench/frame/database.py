"""A stand's database, reached past its daemon: to look at what the API does not tell, and to store what would take hours by
calls. Statements are those that both databases understand."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it looks into its database by this module
    from frame.stand import Stand


def row(stand: "Stand", query: str) -> list[Any]:
    """Return a query's one row; on PostgreSQL as text, but for NULL."""
    if stand.server is not None:
        columns = stand.server.psql(f"COPY ({query}) TO STDOUT;").split()
        return [None if column == "\\N" else column for column in columns]
    with _sqlite(stand) as database:
        return list(database.execute(query).fetchone())


def execute(stand: "Stand", *statements: str) -> None:
    """Run statements in one transaction."""
    text = f"BEGIN; {'; '.join(statements)}; COMMIT;"
    if stand.server is not None:
        stand.server.psql(text + " ANALYZE;")  # as autovacuum does by itself, some time after so many rows
        return
    with _sqlite(stand) as database:
        database.executescript(text)


@contextmanager
def _sqlite(stand: "Stand") -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(stand.folder / "fibatchd.db", timeout=60)) as database:
        yield database
