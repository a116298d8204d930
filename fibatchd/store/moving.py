"""Moves everything from one store into another, table by table, whatever the core and plugins keep there.

Tables, columns and keys are asked of the databases themselves, so that a plugin's tables move without its help. Rows go
over in chunks of bounded size, in the order of the primary key. What arrived is read back and compared by count and
checksum; the checksum does not depend on the order, which text keys may have differently on the other side.
"""

import graphlib
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from fibatchd.errors import StoreError
from fibatchd.store.interface import NOW, Insert, Query, Row, Rows, Script, Store

CHUNK_BYTES = 4 * 2**20
FIRST_CHUNK_ROWS = 16
MOST_CHUNK_ROWS = 5000

_NOT_MOVED = frozenset({"migrations", "receipts"})  # each database's own
_SEEDED = frozenset({"sequences"})  # has rows from the start, and none with a number given out while nothing else has

_TABLES = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
    "postgresql": "SELECT relname::TEXT FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::REGNAMESPACE",
}
# Name of each column, and its place in the primary key or 0.
_COLUMNS = {
    "sqlite": "SELECT name, pk FROM pragma_table_info(?) ORDER BY cid",
    "postgresql": """
SELECT a.attname::TEXT, COALESCE(array_position(i.indkey::INT2[], a.attnum) + 1, 0)
FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = to_regclass(?::TEXT) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
""",
}
_REFERENCES = {
    "sqlite": 'SELECT DISTINCT "table" FROM pragma_foreign_key_list(?)',
    "postgresql": """
SELECT DISTINCT p.relname::TEXT FROM pg_constraint c JOIN pg_class p ON p.oid = c.confrelid
WHERE c.contype = 'f' AND c.conrelid = to_regclass(?::TEXT)
""",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table to move: its columns, those of its primary key, and the tables it refers to."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    refers_to: frozenset[str]


@dataclass(slots=True)
class Sum:
    """Count and checksum of rows: the sum of their 64-bit hashes, modulo 2**64."""

    rows: int = 0
    checksum: int = 0

    def __str__(self) -> str:
        return f"{self.rows} rows ({self.checksum:016x})"

    def add(self, row: Row) -> int:
        """Count a row; return its size in bytes."""
        encoded = msgspec.msgpack.encode(row)
        digest = hashlib.blake2b(encoded, digest_size=8).digest()
        self.rows += 1
        self.checksum = (self.checksum + int.from_bytes(digest, "big")) % 2**64
        return len(encoded)


def tables(dialect: str) -> Script[list[Table]]:
    """Return the tables to move, each after those it refers to. Raises StoreError where one has no primary key."""
    found: dict[str, Table] = {}
    for (name,) in (yield Query(_TABLES[dialect])):
        if name in _NOT_MOVED:
            continue
        columns = yield Query(_COLUMNS[dialect], (name,))
        key = sorted((place, column) for column, place in columns if place)
        if not key:
            raise StoreError(f"table {name} has no primary key; it cannot be moved")
        refers_to = yield Query(_REFERENCES[dialect], (name,))
        found[name] = Table(
            name,
            tuple(sorted(column for column, _ in columns)),
            tuple(column for _, column in key),
            frozenset(other for (other,) in refers_to) - {name},
        )
    order = graphlib.TopologicalSorter({name: sorted(found[name].refers_to & found.keys()) for name in sorted(found)})
    return [found[name] for name in order.static_order()]


def in_use() -> Script[bool]:
    """Whether a daemon works on this database: one whose leases hold."""
    ((now,),) = yield NOW
    return bool((yield Query("SELECT 1 FROM daemons WHERE deadline > ? LIMIT 1", (now,))))


def filled(all_tables: list[Table]) -> Script[str | None]:
    """Return a table that is not as new, None where all are."""
    for table in all_tables:
        used = " WHERE next <> 1" if table.name in _SEEDED else ""
        if (yield Query(f"SELECT 1 FROM {table.name}{used} LIMIT 1")):
            return table.name
    return None


def clear_seeds(all_tables: list[Table]) -> Script[None]:
    """Remove the rows that a new database has."""
    for table in all_tables:
        if table.name in _SEEDED:
            yield Query(f"DELETE FROM {table.name}")


def count(table: Table) -> Script[int]:
    """Return how many rows a table has."""
    ((rows,),) = yield Query(f"SELECT COUNT(*) FROM {table.name}")
    return int(rows)


def _page(table: Table, after: Row | None, limit: int) -> Script[Rows]:
    key = ", ".join(table.key)
    beyond = f"WHERE ({key}) > ({', '.join('?' * len(table.key))})" if after else ""
    sql = f"SELECT {', '.join(table.columns)} FROM {table.name} {beyond} ORDER BY {key} LIMIT ?"
    return (yield Query(sql, (*(after or ()), limit)))


async def pages(store: Store, table: Table, into: Sum) -> AsyncIterator[Rows]:
    """Give a table's rows in chunks, about CHUNK_BYTES each after the first, summed up in `into`."""
    places = [table.columns.index(column) for column in table.key]
    after: Row | None = None
    limit = FIRST_CHUNK_ROWS
    while rows := await store.read(_page, table, after, limit):
        size = sum(into.add(row) for row in rows)
        after = tuple(rows[-1][place] for place in places)
        limit = max(1, min(MOST_CHUNK_ROWS, CHUNK_BYTES * len(rows) // size))
        yield rows


def _put(table: Table, rows: Rows) -> Script[None]:
    yield Insert(table.name, table.columns, rows)


async def prepare(source: Store, target: Store) -> list[Table]:
    """Check that the move can be made and return what is to be moved. Raises StoreError."""
    ours = await source.read(tables, source.dialect)
    theirs = await target.read(tables, target.dialect)
    known = {table.name: table for table in theirs}
    if missing := [t.name for t in ours if t.name not in known or t.columns != known[t.name].columns]:
        raise StoreError(f"the target has not the same tables ({', '.join(missing)}): is an extension not installed?")
    if source.shared and await source.read(in_use):
        raise StoreError("a daemon works on the source; stop it, and wait half a minute if it was killed")
    if (name := await target.read(filled, theirs)) is not None:
        raise StoreError(f"the target is not empty: table {name} has rows; give a new database")
    wanted = {table.name for table in ours}
    return [table for table in theirs if table.name in wanted]


async def copy(source: Store, target: Store, table: Table, moved: Callable[[int], None]) -> Sum:
    """Copy one table; `moved` is told of each chunk's rows. Return what was read."""
    total = Sum()
    async for rows in pages(source, table, total):
        await target.write(_put, table, rows)
        moved(len(rows))
    return total


async def summed(store: Store, table: Table, seen: Callable[[int], None]) -> Sum:
    """Read one table and return its sum."""
    total = Sum()
    async for rows in pages(store, table, total):
        seen(len(rows))
    return total
