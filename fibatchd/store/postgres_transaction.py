"""One run of a script as one transaction on PostgreSQL. All here is of asyncio, so that a whole transaction is one
crossing from trio.

A connection that is lost in the very COMMIT leaves open whether the transaction was stored. So each transaction writes a
receipt, in the statement that also reads the database's clock and costs no trip of its own: the row of its connection
then has its number. Whoever asks for it afterwards waits for a commit still under way, and gets the truth, also after
a crash of the server (`pg_xact_status` may lie then, for a number that was not yet on disk is given out again).
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

from fibatchd.store.interface import Insert, Many, Notify, Now, Query, Rows, Script
from fibatchd.store.postgres_connections import Connection
from fibatchd.store.postgres_errors import DRIVER_ERRORS

T = TypeVar("T")

_CLOCK = "SELECT EXTRACT(EPOCH FROM clock_timestamp())::DOUBLE PRECISION"
_RECEIPT = """
INSERT INTO receipts (connection, number, written_at) VALUES ($1, $2, clock_timestamp())
ON CONFLICT (connection) DO UPDATE SET number = excluded.number, written_at = excluded.written_at
RETURNING EXTRACT(EPOCH FROM written_at)::DOUBLE PRECISION
"""
# An insert where there is none yet: it waits for another's insert of the same key, which a SELECT would not see.
_ASK = """
INSERT INTO receipts (connection, number, written_at) VALUES ($1, 0, clock_timestamp())
ON CONFLICT (connection) DO UPDATE SET number = receipts.number RETURNING number
"""
FORGET = "DELETE FROM receipts WHERE written_at < clock_timestamp() - INTERVAL '1 day'"
"""Removes the receipts of connections that are long gone; one that is not writes its row anew."""

_NOTIFY = "SELECT pg_notify(n.channel, n.payload) FROM unnest($1::TEXT[], $2::TEXT[]) AS n (channel, payload)"
_PARAMETER = re.compile(r"'[^']*'|\?")


@lru_cache(maxsize=1024)
def dialect(sql: str) -> str:
    """Return the PostgreSQL form of a statement: its parameters numbered."""
    number = 0

    def numbered(match: re.Match[str]) -> str:
        nonlocal number
        if match[0] != "?":
            return match[0]
        number += 1
        return f"${number}"

    return _PARAMETER.sub(numbered, sql)


@dataclass(slots=True)
class Transaction(Generic[T]):
    """A script's run. After a fault while `committing`, only the receipt of that `number` (0: there is none) tells
    whether it was stored, with that `result`."""

    connection: Connection
    make: Callable[[], Script[T]]
    clock: Callable[[], float] | None
    notes: list[Notify] = field(default_factory=list)
    number: int = 0
    committing: bool = False
    result: Any = None

    async def write(self) -> None:
        """Run it as a transaction that writes, with a receipt."""
        self.connection.transactions += 1
        self.number = self.connection.transactions
        await self._within("BEGIN", self._signed)

    async def read_one(self) -> None:
        """Run it without a transaction, which one statement does not need. Raises SeveralStatements where it has more."""
        self.result = await run_script(self.connection.raw, _only_one(self.make()), self._now(None), self.notes)

    async def read(self) -> None:
        """Run it on one snapshot."""
        await self._within("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", self._plain)

    async def migrate(self) -> None:
        """Run it as a transaction that writes, before there is a table for receipts."""
        await self._within("BEGIN", self._plain)

    async def _within(self, begin: str, body: Callable[[], Awaitable[T]]) -> None:
        raw = self.connection.raw
        try:
            await raw.execute(begin)
            self.result = await body()
            if outward := [note for note in self.notes if not note.here]:
                await raw.fetch(_NOTIFY, [n.channel for n in outward], [n.payload for n in outward])
            self.committing = True
            await raw.execute("COMMIT")
        except Exception:
            await _roll_back(raw)
            raise

    async def _signed(self) -> T:
        now = await self.connection.raw.fetchval(_RECEIPT, self.connection.id, self.number)
        return await run_script(self.connection.raw, self.make(), self._now(now), self.notes)

    async def _plain(self) -> T:
        return await run_script(self.connection.raw, self.make(), self._now(None), self.notes)

    def _now(self, known: float | None) -> Callable[[], Awaitable[float]]:
        async def now() -> float:
            nonlocal known
            if self.clock is not None:
                return self.clock()
            if known is None:
                known = await self.connection.raw.fetchval(_CLOCK)
            return known

        return now


class SeveralStatements(Exception):
    """A script that reads has a second statement, so that it needs a snapshot. It never leaves the driver."""


def _only_one(script: Script[T]) -> Script[T]:
    rows: Rows | None = None
    seen = False
    try:
        while True:
            step = script.send(rows)  # type: ignore[arg-type]  # None starts a generator
            if type(step) is not Now:
                if seen:
                    raise SeveralStatements
                seen = True
            rows = yield step
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        script.close()


async def was_stored(raw: Any, connection: int, number: int) -> bool:
    """Whether the transaction of that number, on a connection that has been lost, was committed."""
    return bool(await raw.fetchval(_ASK, connection) == number)


async def run_script(raw: Any, script: Script[T], now: Callable[[], Awaitable[float]], notes: list[Notify]) -> T:
    """Run a script on a connection whose transaction is open; what it wants told is added to `notes`."""
    rows: Rows | None = None
    try:
        while True:
            step = script.send(rows)  # type: ignore[arg-type]  # None starts a generator
            if type(step) is Query:
                rows = _tuples(await raw.fetch(dialect(step.sql), *step.params))
            elif type(step) is Many:
                rows = await _many(raw, dialect(step.sql), step.rows)
            elif type(step) is Insert:
                await raw.copy_records_to_table(step.table, columns=step.columns, records=step.rows)
                rows = []
            elif type(step) is Now:
                rows = [(await now(),)]
            else:
                assert type(step) is Notify
                notes.append(step)
                rows = []
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        script.close()


async def _many(raw: Any, sql: str, rows: Sequence[Sequence[Any]]) -> Rows:
    if len(rows) == 1:
        return _tuples(await raw.fetch(sql, *rows[0]))
    if "RETURNING" in sql:
        return _tuples(await raw.fetchmany(sql, rows))
    await raw.executemany(sql, rows)
    return []


def _tuples(records: Sequence[Any]) -> Rows:
    return [tuple(record) for record in records]


async def _roll_back(raw: Any) -> None:
    """Leave the connection at rest, or closed."""
    try:
        if not raw.is_closed() and raw.is_in_transaction():
            await raw.execute("ROLLBACK")
    except DRIVER_ERRORS:
        raw.terminate()
