"""The PostgreSQL driver: scripts as READ COMMITTED transactions, for any number of daemons on one database.

A script that meets a deadlock or loses its connection before its commit is run again from its start, a few times; one
whose connection is lost in the commit is looked up (see `postgres_transaction`), so that it is neither lost nor done
twice. Only where the database stays away meanwhile is the caller told that nobody knows, by StoreUncertain.
"""

import contextlib
import random
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeAlias, TypeVar

import trio

from fibatchd.errors import StoreError, StoreUnavailable, StoreUncertain
from fibatchd.store import migrate
from fibatchd.store.bridge import Bridge, open_bridge
from fibatchd.store.interface import Query, Script
from fibatchd.store.listeners import Listeners
from fibatchd.store.postgres_connections import CLOSE_S, Connection, Connections, Server, open_connection
from fibatchd.store.postgres_errors import DRIVER_ERRORS, connection_lost, described, translated, worth_another_run
from fibatchd.store.postgres_listening import Listening
from fibatchd.store.postgres_transaction import FORGET, SeveralStatements, Transaction, was_stored

T = TypeVar("T")
P = ParamSpec("P")
_Way: TypeAlias = Callable[[Transaction[Any]], Coroutine[Any, Any, None]]

PAUSES_S = (0.01, 0.05, 0.2, 0.5)
"""The longest pause before each further run of a script; its length is random, so that those who collided part."""
SETTLE_S = 10.0
"""How long the outcome of a commit that got no answer is asked for."""
MIGRATE_S = 3600.0
FORGET_S = 3600.0
_MIGRATION_LOCK = 0x66696261746368  # "fibatch": all who migrate this database take it


class PostgresStore:
    """A Store on one PostgreSQL database. Make one with `open_postgres`."""

    shared = True
    dialect = "postgresql"

    def __init__(self, bridge: Bridge, server: Server, pool_size: int, clock: Callable[[], float] | None) -> None:
        self._bridge = bridge
        self._server = server
        self._clock = clock
        self._connections = Connections(bridge, server, pool_size)
        self._several: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()
        self._listeners = Listeners()
        self._listening = Listening(bridge, server, self._listeners, self._connections.own)
        bridge.start_soon(self._listening.run)
        bridge.start_soon(self._keep_forgetting)

    async def write(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script as one transaction. Also raises StoreUncertain: stored or not, it could not be found out."""
        result: T = await self._run(lambda: script(*args, **kwargs), Transaction.write)
        return result

    async def read(self, script: Callable[P, Script[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a script on one snapshot. Most have one statement; one that was seen to have several opens a transaction."""

        def make() -> Script[T]:
            return script(*args, **kwargs)

        result: T
        if script not in self._several:
            try:
                result = await self._run(make, Transaction.read_one)
            except SeveralStatements:
                self._several.add(script)
            else:
                return result
        result = await self._run(make, Transaction.read)
        return result

    async def was_stored(self, uncertain: StoreUncertain) -> bool:
        """Ask for the receipt of a write without an answer, which is kept for a day. Raises StoreUnavailable."""
        with trio.move_on_after(self._server.transaction_timeout_s):
            return await self._ask(uncertain.receipt)
        raise StoreUnavailable("the database does not answer")

    @contextlib.asynccontextmanager
    async def listen(self, channel: str) -> AsyncIterator[AsyncIterator[str]]:
        """Give a channel's payloads: those of this process at once, those of others while a connection for it stands."""
        with self._listeners.on(channel) as receive:
            self._listening.look_again()
            yield receive

    def has_room(self) -> bool:
        """Always True: the server's disk cannot be seen from here. A full one shows as StoreUnavailable."""
        return True

    async def aclose(self) -> None:
        """Let transactions finish, for a moment, and close all connections."""
        with trio.move_on_after(2 * CLOSE_S, shield=True):
            await self._listening.stop()
            await self._connections.aclose()

    async def migrate(self, migrations: Sequence[migrate.Migration]) -> None:
        """Bring the schema up to date, one daemon at a time. Raises StoreTooNew, StoreUnavailable."""
        raw = await open_connection(self._bridge, replace(self._server, statement_timeout_s=0))
        try:
            transaction = Transaction(Connection(raw), lambda: _migrated(migrations), self._clock)
            fault = await self._attempt(transaction.migrate(), raw, MIGRATE_S)
            if fault is None:
                await self._attempt(raw.close(), raw, CLOSE_S)
        finally:
            raw.terminate()
        if fault is not None:
            raise translated(fault) from None

    async def _run(self, make: Callable[[], Script[Any]], how: _Way) -> Any:
        pauses = iter(PAUSES_S)
        while True:
            async with self._connections.lend() as connection:
                transaction = Transaction(connection, make, self._clock)
                fault = await self._attempt(how(transaction), connection.raw, self._server.transaction_timeout_s)
            if fault is None or await self._was_stored_after_all(transaction, fault):
                for note in transaction.notes:
                    self._listeners.tell(note.channel, note.payload)
                return transaction.result
            if connection_lost(fault):
                self._connections.drop_idle()
            pause = next(pauses, None)
            if pause is None or not worth_another_run(fault):
                raise translated(fault) from None
            await trio.sleep(random.uniform(0, pause))

    async def _attempt(self, run: Coroutine[Any, Any, None], raw: Any, timeout: float) -> Exception | None:
        try:
            with trio.fail_after(timeout):
                await self._bridge.call(run, raw.terminate)
        except DRIVER_ERRORS as error:
            return error
        return None

    async def _was_stored_after_all(self, transaction: Transaction[Any], fault: Exception) -> bool:
        """Find out whether a commit that got no answer was done. Raises StoreUncertain."""
        no_answer = connection_lost(fault) or isinstance(fault, trio.TooSlowError)
        if not (transaction.committing and transaction.number and no_answer):
            return False
        self._connections.drop_idle()
        with trio.move_on_after(SETTLE_S):
            while True:
                with contextlib.suppress(StoreUnavailable):
                    return await self._ask((transaction.connection.id, transaction.number))
                await trio.sleep(random.uniform(0, max(PAUSES_S)))
        receipt = (transaction.connection.id, transaction.number)
        raise StoreUncertain(f"the database was lost in a commit and could not be asked: {translated(fault)}", receipt)

    async def _ask(self, receipt: tuple[int, int]) -> bool:
        """Ask for a receipt. Raises StoreUnavailable."""
        try:
            async with self._connections.lend() as connection:
                return await self._bridge.call(was_stored(connection.raw, *receipt), connection.raw.terminate)
        except DRIVER_ERRORS as error:
            raise StoreUnavailable(f"the database cannot be asked: {described(error)}") from None

    async def _keep_forgetting(self) -> None:
        """Remove old receipts now and then: every connection that was ever made leaves one."""
        while True:
            await trio.sleep(FORGET_S)
            with contextlib.suppress(StoreError):
                await self.write(_forget_receipts)


def _migrated(migrations: Sequence[migrate.Migration]) -> Script[None]:
    yield Query("SELECT pg_advisory_xact_lock(?)", (_MIGRATION_LOCK,))
    for migration in (yield from migrate.pending(migrations)):
        yield from migrate.apply(migration, PostgresStore.dialect)


def _forget_receipts() -> Script[None]:
    yield Query(FORGET)


@contextlib.asynccontextmanager
async def open_postgres(
    server: Server,
    *,
    migrations: Sequence[migrate.Migration],
    pool_size: int = 10,
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[PostgresStore]:
    """Hold a store on this database open, its schema brought up to date, for as long as the block runs.

    `clock` takes the place of the database's own, for tests. Raises StoreUnavailable, StoreTooNew.
    """
    async with open_bridge() as bridge:
        store = PostgresStore(bridge, server, pool_size, clock)
        try:
            await store.migrate(migrations)
            await store.write(_forget_receipts)
            yield store
        finally:
            await store.aclose()
