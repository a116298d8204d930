"""One connection to an SQLite file: how it is set up, how a script runs on it, and what its errors are called outside."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from fibatchd.errors import StoreConflict, StoreError, StoreUnavailable
from fibatchd.store.interface import Insert, Many, Notify, Now, Query, Rows, Script

T = TypeVar("T")

ROWS_AT_ONCE = (500, 50, 5, 1)
"""Rows in one statement. Of few sizes, so that all of them are prepared once."""
KEPT_BYTES = 2**19
"""What a prepared statement may keep, until it is used again, of the values that it was given last: SQLite copies them."""
BUSY_TIMEOUT_MS = 5000

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA mmap_size = 0",
    "PRAGMA cache_size = -4000",
    "PRAGMA wal_autocheckpoint = 2000",
    "PRAGMA journal_size_limit = 67108864",
)
_PASSING = (
    apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError,
    apsw.NoMemError, apsw.InterruptError, apsw.ProtocolError, apsw.CorruptError, apsw.NotADBError,
)  # fmt: skip
_UNBINDABLE = (OverflowError, UnicodeError)
"""What apsw raises for an integer beyond 64 bits and for text with lone surrogates."""

_LOCKING = re.compile(r" FOR (UPDATE|SHARE|NO KEY UPDATE|KEY SHARE)( OF \w+)?( SKIP LOCKED| NOWAIT)?\b")


@lru_cache(maxsize=1024)
def _dialect(sql: str) -> str:
    """Return the SQLite form of a statement: no row locks, and lists as JSON."""
    return _LOCKING.sub("", re.sub(r"\n(FOR UPDATE)", r" \1", sql)).replace(
        "= ANY(?)", "IN (SELECT value FROM json_each(?))"
    )


def _params(params: Any) -> Any:
    for value in params:
        if type(value) is list:
            return tuple(msgspec.json.encode(v).decode() if type(v) is list else v for v in params)
    return params


def run_script(connection: apsw.Connection, script: Script[T], now: float, notes: list[Notify]) -> T:
    """Run a script on a connection whose transaction is open; what it wants told is added to `notes`."""
    rows: Rows | None = None
    try:
        while True:
            step = script.send(rows)  # type: ignore[arg-type]  # None starts a generator
            if type(step) is Query:
                rows = list(connection.execute(_dialect(step.sql), _params(step.params)))
            elif type(step) is Many:
                rows = list(connection.executemany(_dialect(step.sql), step.rows))
            elif type(step) is Insert:
                _insert(connection, step)
                rows = []
            elif type(step) is Now:
                rows = [(now,)]
            else:
                assert type(step) is Notify
                notes.append(step)
                rows = []
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        script.close()


def _insert(connection: apsw.Connection, step: Insert) -> None:
    """Insert rows by few statements: each gives the interpreter away, and a thread that parses meanwhile keeps it for a
    while."""
    start, rows = 0, step.rows
    for size in ROWS_AT_ONCE:
        while len(rows) - start >= size:
            values = tuple(chain.from_iterable(rows[start : start + size]))
            sql = _insertion(step.table, step.columns, size)
            connection.execute(sql, values, can_cache=_bytes_in(values) <= KEPT_BYTES)
            start += size


def _bytes_in(values: Iterable[object]) -> int:
    return sum([len(value) for value in values if type(value) is bytes or type(value) is str])


@cache
def _insertion(table: str, columns: tuple[str, ...], rows: int) -> str:
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"


def translated(error: BaseException) -> BaseException:
    """Return what leaves the store for an exception inside it: never the driver's own."""
    if isinstance(error, _PASSING):
        return StoreUnavailable(f"the database cannot be used now: {error}")
    if isinstance(error, apsw.ConstraintError):
        return StoreConflict(str(error))
    if isinstance(error, apsw.Error):
        return StoreError(f"{type(error).__name__}: {error}")
    if isinstance(error, _UNBINDABLE):
        return StoreError(f"a value that the database cannot hold: {type(error).__name__}")  # the rest quotes the value
    return error


def connect(path: Path) -> apsw.Connection:
    """Open a connection with the settings that durability and readers beside a writer need."""
    connection = apsw.Connection(str(path), statementcachesize=200)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return connection
