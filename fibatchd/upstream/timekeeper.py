"""One task that watches the deadlines of all connections of a pool.

A cancel scope for each request would be the plain way, and costs a third of a whole exchange with a fast server. Here
a deadline is an entry in a dictionary; the task sleeps until the nearest, and most are replaced before they come.
"""

from collections.abc import Callable

import trio

from fibatchd.upstream.connection import Connection


class Timekeeper:
    """Calls `expire` with each connection whose deadline passes, once. It must not raise.

    The task is a system task, so that a client needs no nursery, and lives only while there are deadlines.
    """

    def __init__(self, expire: Callable[[Connection], None]) -> None:
        self._expire = expire
        self._deadlines: dict[Connection, float] = {}
        self._watching = False
        self._sleep: trio.CancelScope | None = None

    def set(self, connection: Connection, seconds: float) -> None:
        """Give `connection` `seconds` from now, in the place of the deadline it had."""
        deadline = trio.current_time() + seconds
        self._deadlines[connection] = deadline
        if not self._watching:
            self._watching = True
            trio.lowlevel.spawn_system_task(self._watch, name="deadlines of upstream connections")
        elif self._sleep is not None and deadline < self._sleep.deadline:
            self._sleep.deadline = deadline

    def forget(self, connection: Connection) -> None:
        """`connection` is closed."""
        self._deadlines.pop(connection, None)

    async def _watch(self) -> None:
        try:
            while self._deadlines:
                with trio.CancelScope(deadline=min(self._deadlines.values())) as self._sleep:
                    await trio.sleep_forever()
                self._expire_until(trio.current_time())
        except trio.Cancelled:  # trio's run ends, and with it every task that could use a connection
            self._expire_until(float("inf"))
            raise
        finally:
            self._sleep = None
            self._watching = False

    def _expire_until(self, now: float) -> None:
        for connection in [c for c, deadline in self._deadlines.items() if deadline <= now]:
            del self._deadlines[connection]
            self._expire(connection)
