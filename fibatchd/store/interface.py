"""The store's contract: the statements a script may yield, and what a driver does with a script.

SQL is written once, in what SQLite and PostgreSQL share: `?` for a parameter, `= ANY(?)` for a list of them, RETURNING,
ON CONFLICT. Row locks (`FOR UPDATE`, `FOR SHARE`, `SKIP LOCKED`) are written for PostgreSQL; SQLite, which has one writer
at a time, leaves them out.
"""

from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

from fibatchd.errors import StoreUncertain

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]


@dataclass(frozen=True, slots=True)
class Query:
    """One statement; the script receives its rows, [] where it has none."""

    sql: str
    params: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Many:
    """One statement for each tuple of parameters, in order; the script receives all RETURNING rows together."""

    sql: str
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows for one table, in bulk (COPY on PostgreSQL); the script receives []."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell every listener of a channel, on every daemon, once the transaction is committed; at least once, unordered. With
    `here`, only those of this process."""

    channel: str
    payload: str = ""
    here: bool = False


@dataclass(frozen=True, slots=True)
class Now:
    """The script receives [(now,)]: Unix seconds by the clock that all daemons on this store share."""


NOW = Now()

Step: TypeAlias = Query | Many | Insert | Notify | Now
T = TypeVar("T")
P = ParamSpec("P")
Script: TypeAlias = Generator[Step, Rows, T]


class Store(Protocol):
    """What a driver does. Every call raises StoreUnavailable when the database cannot do it now, and then nothing of
    the script is stored, unless it is a StoreUncertain, when it may be, whole; StoreConflict when a unique value exists
    already; what the script itself raises, with nothing stored either."""

    shared: bool
    """Whether other daemons may work on this database (PostgreSQL), or this one alone does (SQLite)."""

    dialect: str
    """Whose SQL migrations and questions to the catalogue are in: "sqlite" or "postgresql"."""

    async def write(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script as one transaction and return its result once that is durable.

        The script may be run again from its start after a passing fault, so it must have no effect but its statements.
        A caller that is cancelled may find its script done or not, never half-done.
        """
        ...

    async def read(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script that only reads, on one consistent state of the database."""
        ...

    async def was_stored(self, uncertain: StoreUncertain) -> bool:
        """Tell what became of a write that raised StoreUncertain, within a day of it. Raises StoreUnavailable."""
        ...

    def listen(self, channel: str) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """Give the payloads of a channel as they come. A listener that lags, or a connection that was lost meanwhile,
        may miss some: whoever listens looks again by itself now and then."""
        ...

    def has_room(self) -> bool:
        """Whether there is space to store more: False below `storage.min_free_bytes`; always True where that cannot
        be known. Does not touch the database."""
        ...

    async def aclose(self) -> None:
        """Finish what was begun and release the database. Idempotent."""
        ...


def one(rows: Rows) -> Row | None:
    """Return the only row, or None where there is none."""
    return rows[0] if rows else None
