"""A bounded pool of connections to one upstream.

The one used last is used next, so that those a quieter time does not need grow old and are closed. Invariant: the
connections in use and the idle ones together are never more than `max_connections`, for a new one is opened only by
a task that holds a slot and finds none idle.
"""

from collections import deque
from collections.abc import Awaitable, Callable

import trio

from fibatchd.upstream.connection import Connection


class ConnectionPool:
    """Lends connections. `connect` opens one; what it raises leaves `acquire` as it is."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], *, max_connections: int, idle_timeout: float
    ) -> None:
        self._connect = connect
        self._slots = trio.Semaphore(max_connections, max_value=max_connections)
        self._idle: deque[Connection] = deque()  # the longest idle first
        self._idle_timeout = idle_timeout
        self._reaping = False
        self._closed = False

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
                connection.close()
            return await self._connect()
        except BaseException:
            self._slots.release()
            raise

    def release(self, connection: Connection) -> None:
        """Take `connection` back; close it, at once, unless it can carry another request."""
        if connection.reusable and not self._closed:
            connection.idle_since = trio.current_time()
            self._idle.append(connection)
            if not self._reaping:
                self._reaping = True
                trio.lowlevel.spawn_system_task(self._reap, name="idle upstream connections")
        else:
            connection.close()
        self._slots.release()

    def close(self) -> None:
        """Close what is idle, and from now on what comes back. Requests that run, or start late, still end well."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def _reap(self) -> None:
        """Close connections that were idle too long; ends when none is idle.

        A system task, so that a client needs no nursery: it holds no work, only sockets that nobody waits for.
        """
        try:
            while self._idle:
                await trio.sleep_until(self._idle[0].idle_since + self._idle_timeout)
                oldest_allowed = trio.current_time() - self._idle_timeout
                while self._idle and self._idle[0].idle_since <= oldest_allowed:
                    self._idle.popleft().close()
        except trio.Cancelled:  # trio's run ends
            self.close()
            raise
        finally:
            self._reaping = False
