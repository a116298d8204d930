"""A bounded pool of connections to one upstream.

The one used last is used next, so that those a quieter time does not need grow old and are closed. Invariant: the
connections in use and the idle ones together are never more than `max_connections`, for a new one is opened only by
a task that holds a slot and finds none idle.
"""

from collections.abc import Awaitable, Callable

import trio

from fibatchd.upstream.connection import Connection
from fibatchd.upstream.timekeeper import Timekeeper


class ConnectionPool:
    """Lends connections. `connect` opens one; what it raises leaves `acquire` as it is. Times are seconds."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], *, max_connections: int, idle_timeout: float
    ) -> None:
        self._connect = connect
        self._max_connections = max_connections
        self._slots = trio.Semaphore(max_connections, max_value=max_connections)
        self._idle: list[Connection] = []
        self._idle_timeout = idle_timeout
        self._timekeeper = Timekeeper(self._time_is_up)
        self._closed = False

    @property
    def in_use(self) -> int:
        """Connections lent out or being opened."""
        return self._max_connections - self._slots.value

    @property
    def idle(self) -> int:
        """Connections that are open and wait for a request."""
        return len(self._idle)

    async def acquire(self) -> Connection:
        """A connection nobody else uses; give it back with `release`. Who waits first is served first."""
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            await self._slots.acquire()
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_quiet():
                    return connection
                self._discard(connection)
            return await self._connect()
        except BaseException:
            self._slots.release()
            raise

    def limit(self, connection: Connection, timeout: float) -> None:
        """Shut `connection`, which is in use, unless it is released within `timeout`: `read` raises AnswerTimeout."""
        self._timekeeper.set(connection, timeout)

    def release(self, connection: Connection) -> None:
        """Take `connection` back; close it, at once, unless it can carry another request."""
        if connection.reusable and not self._closed:
            self._idle.append(connection)
            self._timekeeper.set(connection, self._idle_timeout)
        else:
            self._discard(connection)
        self._slots.release()

    def close(self) -> None:
        """Close what is idle, and from now on what comes back. Requests that run, or start late, still end well."""
        self._closed = True
        while self._idle:
            self._discard(self._idle.pop())

    def _discard(self, connection: Connection) -> None:
        self._timekeeper.forget(connection)
        connection.close()

    def _time_is_up(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)
            connection.close()
        else:
            connection.expire()
