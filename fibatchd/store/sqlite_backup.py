"""A copy of an SQLite database, taken while a daemon works on it.

`VACUUM INTO` reads one snapshot, which holds no writer up, and writes a file without what was deleted: no page of a prompt
that is gone from the tables is left in it. (SQLite's backup API copies pages as they are, and begins anew with each commit
of another process.) A file copied by `cp` while the daemon runs lacks what stands in the write-ahead log, or is torn.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import apsw

from fibatchd.errors import StoreError, StoreUnavailable
from fibatchd.store.sqlite_connection import BUSY_TIMEOUT_MS


def back_up(source: Path, target: Path) -> int:
    """Write a consistent copy of `source` to `target`, which must not exist yet; return its size in bytes.

    The copy is checked, on disk, and readable by its owner alone before it has its name. The schema stays as it is: nothing
    is migrated. Raises StoreError, StoreUnavailable.
    """
    if not source.is_file():
        raise StoreError(f"there is no database {source}")
    if os.path.lexists(target):
        raise _taken(target)
    try:
        with _partial(target) as partial:
            _copy(source, partial)
            size = partial.stat().st_size
            _sync(partial)
            os.link(partial, target)  # to rename it would take the place of a file that came while it was copied
            _sync(target.parent)
    except FileExistsError:
        raise _taken(target) from None
    except (OSError, apsw.Error) as error:
        raise StoreUnavailable(f"{source} cannot be backed up to {target}: {error}") from None
    return size


def _taken(target: Path) -> StoreError:
    return StoreError(f"{target} exists already, and is left as it is")


@contextlib.contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """Give an empty file beside the target, which nobody else writes to meanwhile; what an earlier run that was killed left
    there is removed, and so is what this one leaves. Raises StoreError, OSError."""
    partial = target.with_name(f"{target.name}.partial")
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), partial.stat()):
                raise FileNotFoundError  # whoever held it has just finished
        except (BlockingIOError, FileNotFoundError):
            raise StoreError(f"another backup to {target} is under way") from None
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        try:
            yield partial
        finally:
            partial.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _copy(source: Path, partial: Path) -> None:
    with contextlib.closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute("VACUUM INTO ?", (str(partial),))
    with contextlib.closing(apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READONLY)) as copy:
        found = [row[0] for row in copy.execute("PRAGMA integrity_check")]
    if found != ["ok"]:
        raise StoreError(f"the copy of {source} is damaged: {found[0]}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
