"""What the SQLite driver's threads are given, and the threads that read.

They are the driver's own: trio's workers would cost a round of the event loop more for each read, and a name for the thread
each time. A loop that is busy makes each of its rounds felt.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import outcome
import trio

from fibatchd.errors import StoreUnavailable
from fibatchd.store.interface import Notify, Script
from fibatchd.store.sqlite_connection import connect, run_script, translated

READERS = 4
GIVEN_UP_STEPS = 100_000  # of its virtual machine, some ms: so often a read looks whether anybody waits for it


class Operation:
    """A script on its way to a thread, and the task that waits for it."""

    __slots__ = ("abandoned", "make", "notes", "now", "result", "task")

    def __init__(self, make: Callable[[], Script[Any]], now: float) -> None:
        self.make = make
        self.now = now
        self.task = trio.lowlevel.current_task()
        self.abandoned = False
        self.notes: list[Notify] = []
        self.result: outcome.Outcome[Any] = outcome.Error(StoreUnavailable("the store is closed"))

    async def wait(self) -> Any:
        """Wait for the result and return or raise it. Whoever is cancelled leaves the script to itself."""

        def abort(_: object) -> trio.lowlevel.Abort:
            self.abandoned = True
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    def deliver(self) -> None:
        """Wake who waits."""
        if not self.abandoned:
            trio.lowlevel.reschedule(self.task, self.result)


class Readers:
    """Reading threads, each with a connection of its own: as many as there are reads at once, up to READERS."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = trio.lowlevel.current_trio_token()
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0

    def put(self, operation: Operation) -> None:
        """Have it read as soon as a thread is free. StoreUnavailable: there is none, and none can be had."""
        if len(self._threads) < min(self._under_way + 1, READERS):
            self._start_one()
        self._under_way += 1
        self._queue.put(operation)

    def _start_one(self) -> None:
        thread = threading.Thread(target=self._read_all, name="fibatchd-sqlite-reader", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The system has no more. Those that are there will do, and the next read tries again.
            if not self._threads:
                raise StoreUnavailable(f"the database cannot be read now: {error}") from None
        else:
            self._threads.append(thread)

    def close(self, until: float) -> None:
        """Have all that was put read, and close the connections. Returns when that is done, or at `until` (of
        time.monotonic): a disk that does not answer is left to the end of the process."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _read_all(self) -> None:
        connection: apsw.Connection | None = None
        while (operation := self._queue.get()) is not None:
            if not operation.abandoned:
                connection = self._read(operation, connection)
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._deliver, operation)
            del operation  # it may hold much, and the next may be long in coming
        if connection is not None:
            connection.close()

    def _read(self, operation: Operation, connection: apsw.Connection | None) -> apsw.Connection | None:
        """Run a script; return the connection for the next one, None where that needs a new one."""
        try:
            connection = connection or connect(self._path)
            connection.set_progress_handler(lambda: operation.abandoned, GIVEN_UP_STEPS)
            connection.execute("BEGIN")
            operation.result = outcome.Value(run_script(connection, operation.make(), operation.now, operation.notes))
        except BaseException as error:
            operation.result = outcome.Error(translated(error))
        try:
            if connection is not None and connection.in_transaction:
                connection.set_progress_handler(None)
                connection.execute("COMMIT")
        except apsw.Error:
            assert connection is not None
            connection.close()
            return None
        return connection

    def _deliver(self, operation: Operation) -> None:
        self._under_way -= 1
        operation.deliver()
