"""The parts of the PostgreSQL driver that need no server: statements in its dialect, and what may be said of an error."""

import asyncpg
import pytest
import trio

from fibatchd.errors import StoreConflict, StoreError, StoreUnavailable
from fibatchd.store.postgres_errors import connection_lost, described, translated, worth_another_run
from fibatchd.store.postgres_transaction import dialect


@pytest.mark.parametrize(
    ("sql", "numbered"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT ? WHERE a = ANY(?) AND b > ?", "SELECT $1 WHERE a = ANY($2) AND b > $3"),
        ("SELECT '?', 'it''s ?', ? FOR UPDATE SKIP LOCKED", "SELECT '?', 'it''s ?', $1 FOR UPDATE SKIP LOCKED"),
    ],
)
def test_parameters_are_numbered(sql, numbered):
    assert dialect(sql) == numbered


@pytest.mark.parametrize(
    ("error", "kind", "again", "lost"),
    [
        (asyncpg.DeadlockDetectedError("m"), StoreUnavailable, True, False),
        (asyncpg.SerializationError("m"), StoreUnavailable, True, False),
        (asyncpg.InvalidCachedStatementError("m"), StoreUnavailable, True, False),
        (asyncpg.ConnectionDoesNotExistError("m"), StoreUnavailable, True, True),
        (asyncpg.AdminShutdownError("m"), StoreUnavailable, True, True),
        (asyncpg.InterfaceError("cannot perform operation: connection is closed"), StoreUnavailable, True, True),
        (ConnectionRefusedError(111, "refused"), StoreUnavailable, True, True),
        (asyncpg.QueryCanceledError("m"), StoreUnavailable, False, False),
        (asyncpg.DiskFullError("m"), StoreUnavailable, False, False),
        (asyncpg.TooManyConnectionsError("m"), StoreUnavailable, False, False),
        (asyncpg.ReadOnlySQLTransactionError("m"), StoreUnavailable, False, False),
        (asyncpg.CannotConnectNowError("m"), StoreUnavailable, False, False),
        (trio.TooSlowError(), StoreUnavailable, False, False),
        (asyncpg.UniqueViolationError("m"), StoreConflict, False, False),
        (asyncpg.ForeignKeyViolationError("m"), StoreConflict, False, False),
        (asyncpg.UndefinedTableError("m"), StoreError, False, False),
        (asyncpg.InterfaceError("another operation is in progress"), StoreError, False, False),
    ],
)
def test_errors_become_the_stores_own(error, kind, again, lost):
    assert type(translated(error)) is kind
    assert worth_another_run(error) is again
    assert connection_lost(error) is lost


def test_no_value_is_told_of_an_error():
    server = asyncpg.UniqueViolationError.new({"C": "23505", "M": "duplicate key", "D": "Key (name)=(secret) exists"})
    assert described(server) == "UniqueViolationError: duplicate key"
    for kind in (asyncpg.DataError, asyncpg.InterfaceError):
        assert described(kind("invalid input for query argument $1: 'secret' (expected int)")) == kind.__name__
