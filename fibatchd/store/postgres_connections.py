"""The PostgreSQL driver's connections: a bounded set of them, lent to one transaction each, replaced after any trouble.

A connection whose transaction was cancelled, or ran out of time, is closed rather than mended: what the server is doing
for it cannot be known, and a new one costs a few milliseconds. So what is in the set is always at rest.
"""

import contextlib
import math
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import trio

from fibatchd.errors import StoreUnavailable
from fibatchd.store.bridge import Bridge
from fibatchd.store.postgres_errors import DRIVER_ERRORS, described

ACQUIRE_S = 10.0
"""How long a transaction waits for a connection while all are in use."""
CONNECT_S = 10.0
CLOSE_S = 5.0
GRACE_S = 5.0
"""How much longer than a statement may take at the server a whole transaction is waited for."""

_SESSION = {
    "application_name": "fibatchd",
    "default_transaction_isolation": "read committed",  # what the scripts' row locks are written for
    "jit": "off",  # all statements are short; compiling them costs more than it saves
    # A daemon that is stopped in mid-transaction must not hold rows against the others for long: they wait meanwhile.
    "idle_in_transaction_session_timeout": "3s",
    # A backend that waits for a lock notices that its daemon is gone (PostgreSQL 14 and later).
    "client_connection_check_interval": "5s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}


@dataclass(frozen=True, slots=True)
class Server:
    """Where the database is and how to be let in. `statement_timeout_s` 0 is none."""

    url: str
    password_file: Path | None = None
    statement_timeout_s: float = 30

    @property
    def transaction_timeout_s(self) -> float:
        """How long a transaction may take before it is given up here; only a server that is gone takes so long."""
        return self.statement_timeout_s + GRACE_S if self.statement_timeout_s else math.inf

    async def connect(self) -> Any:
        """Open a connection; of asyncio. Raises DRIVER_ERRORS."""
        session = _SESSION | {"statement_timeout": str(round(self.statement_timeout_s * 1000))}
        # No time-outs of asyncpg's own: each is a timer for each statement, and the caller's scope bounds them all.
        return await asyncpg.connect(
            self.url,
            password=self._password() if self.password_file is not None else None,
            server_settings=session,
            statement_cache_size=500,
            max_cached_statement_lifetime=0,
            timeout=None,
        )

    def _password(self) -> str:
        assert self.password_file is not None
        return self.password_file.read_text(encoding="utf-8").rstrip("\r\n")


class Connection:
    """One of the set. `id` is its own among all that ever were, and `transactions` counts what it has been used for:
    together they name one transaction (see `postgres_transaction`)."""

    __slots__ = ("id", "pid", "raw", "transactions")

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.pid: int = raw.get_server_pid()
        self.id = secrets.randbits(63)
        self.transactions = 0

    @property
    def at_rest(self) -> bool:
        """Whether it may be lent: open, and in no transaction."""
        return not self.raw.is_closed() and not self.raw.is_in_transaction()


class Connections:
    """At most `limit` connections to one server."""

    def __init__(self, bridge: Bridge, server: Server, limit: int) -> None:
        self._bridge = bridge
        self._server = server
        self._limit = limit
        self._places = trio.Semaphore(limit)
        self._idle: list[Connection] = []
        self._pids: set[int] = set()
        self._closed = False

    @contextlib.asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """Lend a connection for as long as the block runs. Raises StoreUnavailable where none is to be had."""
        with trio.move_on_after(ACQUIRE_S) as waiting:
            await self._places.acquire()
        if waiting.cancelled_caught:
            raise StoreUnavailable(
                f"all {self._limit} connections to the database have been busy for {ACQUIRE_S:.0f} s"
            )
        try:
            connection = self._take_idle() or await self._connect()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._places.release()

    def own(self, pid: int) -> bool:
        """Whether a server process serves one of these connections."""
        return pid in self._pids

    def drop_idle(self) -> None:
        """Close all that nobody uses: one of them was found dead, and the others are likely to have died with it."""
        while self._idle:
            self._discard(self._idle.pop())

    async def aclose(self) -> None:
        """Wait for what is lent, for a moment, and close everything. Idempotent."""
        self._closed = True
        with trio.move_on_after(CLOSE_S, shield=True):
            for _ in range(self._limit):
                await self._places.acquire()
            for connection in self._idle:
                with contextlib.suppress(*DRIVER_ERRORS):
                    await self._bridge.call(connection.raw.close(), connection.raw.terminate)
        self.drop_idle()
        for _ in range(self._limit):
            self._places.release()

    def _take_idle(self) -> Connection | None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        while self._idle:
            connection = self._idle.pop()
            if connection.at_rest:
                return connection
            self._discard(connection)
        return None

    async def _connect(self) -> Connection:
        connection = Connection(await open_connection(self._bridge, self._server))
        self._pids.add(connection.pid)
        return connection

    def _give_back(self, connection: Connection) -> None:
        if connection.at_rest and not self._closed:
            self._idle.append(connection)
        else:
            self._discard(connection)

    def _discard(self, connection: Connection) -> None:
        self._pids.discard(connection.pid)
        connection.raw.terminate()


async def open_connection(bridge: Bridge, server: Server) -> Any:
    """Open a connection outside any set. Raises StoreUnavailable."""
    try:
        with trio.fail_after(CONNECT_S):
            return await bridge.call(server.connect())
    except DRIVER_ERRORS as error:
        raise StoreUnavailable(f"no connection to the database: {described(error)}") from None
