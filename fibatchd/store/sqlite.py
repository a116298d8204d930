"""The SQLite driver: one writer thread that commits many scripts at once, and a few readers beside it.

Why a thread of its own: a commit with `synchronous=FULL` waits for the disk, and while it waits the next scripts gather;
they then share one commit. Each runs in a savepoint, so that one that fails takes no other with it.
"""

import contextlib
import fcntl
import os
import queue
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import apsw
import msgspec
import outcome
import structlog
import trio

from fibatchd.errors import FibatchdError, StoreConflict, StoreError, StoreInUse, StoreUnavailable, StoreUncertain
from fibatchd.store import migrate
from fibatchd.store.interface import Insert, Many, Notify, Now, Query, Rows, Script
from fibatchd.store.listeners import Listeners

T = TypeVar("T")
P = ParamSpec("P")

log = structlog.get_logger(__name__)

GROUP_MAX = 256  # scripts in one commit: enough to amortise it, few enough to keep each one's wait short
ROWS_AT_ONCE = (500, 50, 5, 1)
"""Rows in one statement. Of few sizes, so that all of them are prepared once."""
READERS = 4
BUSY_TIMEOUT_MS = 5000
GIVEN_UP_STEPS = 100_000  # of its virtual machine, some ms: so often a read looks whether anybody waits for it
CLOSE_S = 30.0  # the groups that wait, each behind somebody else's lock for as long as is waited for one

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
            connection.execute(_insertion(step.table, step.columns, size), values)
            start += size


@cache
def _insertion(table: str, columns: tuple[str, ...], rows: int) -> str:
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"


def _translated(error: BaseException) -> BaseException:
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


class _Operation:
    """A script on its way to the writer thread, and the task that waits for it."""

    __slots__ = ("abandoned", "make", "notes", "now", "result", "task")

    def __init__(self, make: Callable[[], Script[Any]], now: float) -> None:
        self.make = make
        self.now = now
        self.task = trio.lowlevel.current_task()
        self.abandoned = False
        self.notes: list[Notify] = []
        self.result: outcome.Outcome[Any] = outcome.Error(StoreUnavailable("the store is closed"))


class SqliteStore:
    """A Store on one SQLite file. Make one with `open_sqlite`."""

    shared = False
    dialect = "sqlite"

    def __init__(self, path: Path, clock: Callable[[], float], min_free_bytes: int, lock: int | None) -> None:
        self.path = path
        self._clock = clock
        self._min_free_bytes = min_free_bytes
        self._lock = lock
        self._token = trio.lowlevel.current_trio_token()
        self._listeners = Listeners()
        self._writer_connection = connect(path)
        self._readers: list[apsw.Connection] = []
        self._limiter = trio.CapacityLimiter(READERS)
        self._queue: queue.SimpleQueue[_Operation | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._write_groups, name="fibatchd-sqlite-writer", daemon=True)
        self._thread.start()

    async def write(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script as part of the next group commit."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise StoreUnavailable("the store is closed")
        operation = _Operation(lambda: script(*args, **kwargs), self._clock())
        self._queue.put(operation)

        def abort(_: object) -> trio.lowlevel.Abort:
            operation.abandoned = True
            return trio.lowlevel.Abort.SUCCEEDED

        result: T = await trio.lowlevel.wait_task_rescheduled(abort)
        return result

    async def read(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script on one of the reading connections, in a worker thread."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        now, given_up = self._clock(), threading.Event()

        def work() -> T:
            try:
                connection = self._idle_reader() or connect(self.path)
            except apsw.Error as error:
                raise _translated(error) from None
            try:
                connection.set_progress_handler(given_up.is_set, GIVEN_UP_STEPS)
                connection.execute("BEGIN")
                return run_script(connection, script(*args, **kwargs), now, [])
            except apsw.Error as error:
                raise _translated(error) from None
            finally:
                self._end_reading(connection)

        try:
            # What a cancelled caller leaves behind ends by itself: nobody waits for a disk that does not answer.
            return await trio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=True)
        finally:
            given_up.set()

    def _end_reading(self, connection: apsw.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("COMMIT")
            self._readers.append(connection)
        except apsw.Error:
            connection.close()
        if self._closed and (left := self._idle_reader()):
            left.close()

    def _idle_reader(self) -> apsw.Connection | None:
        # Several threads do this at once, so that to look whether there is one would not mean that it is still there.
        try:
            return self._readers.pop()
        except IndexError:
            return None

    async def was_stored(self, uncertain: StoreUncertain) -> bool:
        """Nothing is ever uncertain here."""
        raise uncertain

    @contextlib.asynccontextmanager
    async def listen(self, channel: str) -> AsyncIterator[AsyncIterator[str]]:
        """Give a channel's payloads; those of other processes on the same file are not seen."""
        with self._listeners.on(channel) as receive:
            yield receive

    def has_room(self) -> bool:
        """Whether the file system has `min_free_bytes` left."""
        if not self._min_free_bytes:
            return True
        try:
            free = os.statvfs(self.path.parent)
        except OSError:
            return False
        return free.f_bavail * free.f_frsize >= self._min_free_bytes

    async def aclose(self) -> None:
        """Commit what was begun and close the file. Where the disk does not answer, leave that to the end of the process."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join, CLOSE_S)
        if self._thread.is_alive():
            log.error("the database is not closed: a write does not end", waited_s=CLOSE_S)
            return
        while reader := self._idle_reader():
            reader.close()
        self._writer_connection.close()
        if self._lock is not None:
            os.close(self._lock)

    def _write_groups(self) -> None:
        stopping = False
        while not stopping:
            first = self._queue.get()
            group: list[_Operation] = []
            while True:
                if first is None:
                    stopping = True
                    break
                group.append(first)
                if len(group) >= GROUP_MAX or self._queue.empty():
                    break
                first = self._queue.get()
            if group:
                self._commit(group)
                with contextlib.suppress(trio.RunFinishedError):
                    self._token.run_sync_soon(self._deliver, group)

    def _commit(self, group: list[_Operation]) -> None:
        connection = self._writer_connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for operation in group:
                if not operation.abandoned:
                    self._run_one(connection, operation)
            connection.execute("COMMIT")
        except BaseException as error:
            # The transaction is lost with all in it: each of the group hears of it and may try again.
            if connection.in_transaction:
                with contextlib.suppress(apsw.Error):
                    connection.execute("ROLLBACK")
            for operation in group:
                operation.notes.clear()
                operation.result = outcome.Error(_translated(error))

    def _run_one(self, connection: apsw.Connection, operation: _Operation) -> None:
        connection.execute("SAVEPOINT script")
        try:
            result = run_script(connection, operation.make(), operation.now, operation.notes)
        except Exception as error:
            operation.notes.clear()
            operation.result = outcome.Error(_translated(error))
            if not connection.in_transaction:
                raise  # a full disk or a failed write rolls everything back, not this script alone
            connection.execute("ROLLBACK TO script")
        else:
            operation.result = outcome.Value(result)
        connection.execute("RELEASE script")

    def _deliver(self, group: list[_Operation]) -> None:
        for operation in group:
            for note in operation.notes:
                self._listeners.tell(note.channel, note.payload)
            if not operation.abandoned:
                trio.lowlevel.reschedule(operation.task, operation.result)


def connect(path: Path) -> apsw.Connection:
    """Open a connection with the settings that durability and readers beside a writer need."""
    connection = apsw.Connection(str(path), statementcachesize=200)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return connection


def take_lock(path: Path) -> int:
    """Hold the file for this daemon alone; the lock goes with the process. Raises StoreInUse."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StoreInUse(
            f"another fibatchd serves {path}: several daemons can share a PostgreSQL, not an SQLite file"
        ) from None
    return lock


def _create_private(path: Path) -> None:
    """Create the file, if it is not there, for this user alone: it holds prompts and results. What SQLite puts beside it has
    the same permissions."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


async def open_sqlite(
    path: Path,
    *,
    migrations: list[migrate.Migration],
    exclusive: bool,
    clock: Callable[[], float] = time.time,
    min_free_bytes: int = 0,
) -> SqliteStore:
    """Open or create the file, bring its schema up to date, and return the store.

    `exclusive` is for a daemon: it refuses a file that another daemon serves. Commands work beside a daemon.
    """
    lock: int | None = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create_private(path)
        lock = take_lock(path) if exclusive else None
        store = SqliteStore(path, clock, min_free_bytes, lock)
    except (OSError, apsw.Error) as error:
        if lock is not None:
            os.close(lock)
        raise StoreUnavailable(f"{path} cannot be opened: {error}") from None
    try:
        for migration in await store.write(migrate.pending, migrations):
            await store.write(migrate.apply, migration, store.dialect)
    except (FibatchdError, trio.Cancelled):
        await store.aclose()
        raise
    return store
