"""The SQLite driver: one writer thread that commits many scripts at once, and a few readers beside it.

Why a thread of its own: a commit with `synchronous=FULL` waits for the disk, and while it waits the next scripts gather;
they then share one commit. Each runs in a savepoint, so that one that fails takes no other with it.
"""

import contextlib
import fcntl
import os
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import apsw
import outcome
import structlog
import trio

from fibatchd.errors import FibatchdError, StoreInUse, StoreUnavailable, StoreUncertain
from fibatchd.store import migrate
from fibatchd.store.interface import Script
from fibatchd.store.listeners import Listeners
from fibatchd.store.sqlite_connection import connect, run_script, translated
from fibatchd.store.sqlite_threads import Operation, Readers

T = TypeVar("T")
P = ParamSpec("P")

log = structlog.get_logger(__name__)

GROUP_MAX = 256  # scripts in one commit: enough to amortise it, few enough to keep each one's wait short
CLOSE_S = 30.0  # the groups that wait, each behind somebody else's lock for as long as is waited for one


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
        self._readers = Readers(path)
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._write_groups, name="fibatchd-sqlite-writer", daemon=True)
        self._thread.start()

    async def write(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script as part of the next group commit."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise StoreUnavailable("the store is closed")
        operation = Operation(lambda: script(*args, **kwargs), self._clock())
        self._queue.put(operation)
        result: T = await operation.wait()
        return result

    async def read(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script on one of the reading connections. What a cancelled caller leaves behind ends by itself: nobody waits
        for a disk that does not answer."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise StoreUnavailable("the store is closed")
        operation = Operation(lambda: script(*args, **kwargs), self._clock())
        self._readers.put(operation)
        result: T = await operation.wait()
        return result

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
        until = time.monotonic() + CLOSE_S
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join, CLOSE_S)
            await trio.to_thread.run_sync(self._readers.close, until)
        if self._thread.is_alive():
            log.error("the database is not closed: a write does not end", waited_s=CLOSE_S)
            return
        self._writer_connection.close()
        if self._lock is not None:
            os.close(self._lock)

    def _write_groups(self) -> None:
        stopping = False
        while not stopping:
            first = self._queue.get()
            group: list[Operation] = []
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

    def _commit(self, group: list[Operation]) -> None:
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
                operation.result = outcome.Error(translated(error))

    def _run_one(self, connection: apsw.Connection, operation: Operation) -> None:
        connection.execute("SAVEPOINT script")
        try:
            result = run_script(connection, operation.make(), operation.now, operation.notes)
        except Exception as error:
            operation.notes.clear()
            operation.result = outcome.Error(translated(error))
            if not connection.in_transaction:
                raise  # a full disk or a failed write rolls everything back, not this script alone
            connection.execute("ROLLBACK TO script")
        else:
            operation.result = outcome.Value(result)
        connection.execute("RELEASE script")

    def _deliver(self, group: list[Operation]) -> None:
        for operation in group:
            for note in operation.notes:
                self._listeners.tell(note.channel, note.payload)
            operation.deliver()


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
