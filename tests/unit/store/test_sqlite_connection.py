"""A connection to an SQLite file inserts many rows by few statements, and keeps none of them afterwards."""

import apsw
import pytest

from fibatchd.store.interface import Insert
from fibatchd.store.sqlite_connection import ROWS_AT_ONCE, connect, run_script

SIZE = 20_000


@pytest.fixture
def connection(tmp_path):
    opened = connect(tmp_path / "a.db")
    opened.execute("PRAGMA cache_size = 10")  # of pages: what they take is not the question here
    opened.execute("CREATE TABLE bodies (number INTEGER PRIMARY KEY, body BLOB)")
    yield opened
    opened.close()


def insert(connection, rows):
    def script():
        yield Insert("bodies", ("number", "body"), rows)

    with connection:
        run_script(connection, script(), 0.0, [])


@pytest.mark.parametrize("count", [0, 1, 4, sum(ROWS_AT_ONCE), 2 * ROWS_AT_ONCE[0] + 3])
def test_all_rows_are_inserted_however_many(connection, count):
    rows = [(number, b"%d" % number) for number in range(count)]
    insert(connection, rows)
    assert list(connection.execute("SELECT number, body FROM bodies ORDER BY number")) == rows


def test_large_rows_are_not_kept_by_the_statement_that_inserted_them(connection):
    insert(connection, [(number, b"small") for number in range(sum(ROWS_AT_ONCE))])
    before = apsw.memory_used()
    for first, size in enumerate(ROWS_AT_ONCE, 1):
        insert(connection, [(10_000 * first + number, b"x" * SIZE) for number in range(size)])
    assert apsw.memory_used() - before < 50 * SIZE
