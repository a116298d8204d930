"""What leaves the PostgreSQL driver for an exception inside it, and which faults another try may not meet."""

import asyncpg
import trio

from fibatchd.errors import StoreConflict, StoreError, StoreUnavailable

DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, trio.TooSlowError)
"""All that may come out of a call of asyncpg, a deadline of ours included."""

_CONNECTION_LOST = (
    OSError,
    asyncpg.PostgresConnectionError,  # class 08, and connections that asyncpg found closed
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process was stopped for a while
    asyncpg.exceptions.IdleSessionTimeoutError,
    asyncpg.InternalClientError,
)
_RUN_AGAIN = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,  # another daemon migrated a table under a prepared statement
    asyncpg.OutdatedSchemaCacheError,
)
_UNAVAILABLE = (
    *_CONNECTION_LOST,
    *_RUN_AGAIN,
    trio.TooSlowError,
    asyncpg.QueryCanceledError,  # the statement time-out
    asyncpg.LockNotAvailableError,
    asyncpg.InsufficientResourcesError,  # disk full, out of memory, too many connections
    asyncpg.CannotConnectNowError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.PostgresSystemError,
    asyncpg.DataCorruptedError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.TargetServerAttributeNotMatched,
)


def connection_lost(error: BaseException) -> bool:
    """Whether the error says that the connection is of no more use, so that one just made may do better."""
    return isinstance(error, _CONNECTION_LOST) or (
        type(error) is asyncpg.InterfaceError and "closed" in str(error)  # asyncpg has no class for it
    )


def worth_another_run(error: BaseException) -> bool:
    """Whether a script that met this before its commit may well succeed when it is run again at once."""
    return isinstance(error, _RUN_AGAIN) or connection_lost(error)


def translated(error: BaseException) -> StoreError:
    """Return the store's exception for one of DRIVER_ERRORS."""
    if isinstance(error, _UNAVAILABLE) or connection_lost(error):
        return StoreUnavailable(f"the database cannot be used now: {described(error)}")
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return StoreConflict(described(error))
    return StoreError(described(error))


def described(error: BaseException) -> str:
    """Return an error's class and, where that is safe to log, its message: never a value, which a client may have sent."""
    # What is wrong with a value is told with the value; and asyncpg has texts of its own that quote arguments.
    quotes = isinstance(error, (asyncpg.DataError, asyncpg.InterfaceError))
    if not error.args or (quotes and not isinstance(error, asyncpg.ClientConfigurationError)):
        return type(error).__name__
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror or error}"
    return f"{type(error).__name__}: {error.args[0]}"  # no detail: a server's error quotes values there
