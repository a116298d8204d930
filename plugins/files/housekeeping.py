"""Removes what nobody needs any more: files whose time is over, uploads that broke off, the bytes of deleted files. Every
step may be repeated, on any daemon, at any time."""

import structlog
import trio

from fibatchd.plugin_api import NOW, Context, Query, Script, keep_sweeping

SWEEP_S = 5.0
ABANDONED_S = 1800.0
"""A staged file that got no bytes for so long has nobody who writes it: a body that slow is refused long before."""
CHUNKS_AT_ONCE = 16
FILES_AT_ONCE = 100
HOUR_S = 3600.0

log = structlog.get_logger(__name__)


class Housekeeping:
    """A service: sweeps until cancelled."""

    name = "files:housekeeping"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._begun = False

    async def run(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Begin with what an earlier run of this daemon left half-written, where no other daemon may be writing it."""
        store = self._context.store
        if not store.shared and not self._begun:
            await store.write(abandon_staged, 0)
        self._begun = True  # from now on what is staged is this process's own, also where this part is started again
        task_status.started()
        await keep_sweeping(
            self.sweep,
            SWEEP_S,
            lambda error: log.warning("files are not swept: the store cannot be used", error=str(error)),
        )

    async def sweep(self) -> None:
        """Do all there is to do now. Raises StoreUnavailable."""
        store = self._context.store
        await store.write(tidy, ABANDONED_S)
        while found := await store.read(to_purge, FILES_AT_ONCE):
            for file_id in found:
                while await store.write(purge, file_id):
                    pass


def tidy(idle_s: float) -> Script[None]:
    """Delete files whose time is over, those of deleted accounts, and staged ones that got no bytes for so long."""
    ((now,),) = yield NOW
    yield Query("UPDATE files SET state = 'deleted' WHERE state = 'ready' AND expires_at <= ?", (now,))
    yield Query(
        "UPDATE files SET state = 'deleted' WHERE id IN (SELECT f.id FROM accounts a JOIN files f ON f.account_id = a.id "
        "WHERE a.status = 'deleted' AND f.state = 'ready')"
    )
    yield from abandon_staged(idle_s)
    yield Query("DELETE FROM file_uploads WHERE uploaded_at <= ?", (now - HOUR_S,))


def abandon_staged(idle_s: float) -> Script[None]:
    """Give up staged files that got no bytes for so long."""
    ((now,),) = yield NOW
    yield Query("UPDATE files SET state = 'deleted' WHERE state = 'staging' AND written_at <= ?", (now - idle_s,))


def to_purge(limit: int) -> Script[list[str]]:
    """Return deleted files whose bytes no batch has still to read."""
    rows = yield Query(
        "SELECT id FROM files f WHERE state = 'deleted' "
        "AND NOT EXISTS (SELECT 1 FROM file_batches b WHERE b.file_id = f.id AND b.reading = 1) LIMIT ?",
        (limit,),
    )
    return [file_id for (file_id,) in rows]


def purge(file_id: str) -> Script[bool]:
    """Remove up to some chunks of a deleted file; call until it returns False, when the file's own row is gone."""
    # Without the lock, another daemon at the same chunks would make this one believe that none is left.
    if not (yield Query("SELECT 1 FROM files WHERE id = ? AND state = 'deleted' FOR UPDATE", (file_id,))):
        return False
    gone = yield Query(
        "DELETE FROM file_chunks WHERE file_id = ? AND start IN "
        "(SELECT start FROM file_chunks WHERE file_id = ? ORDER BY start LIMIT ?) RETURNING start",
        (file_id, file_id, CHUNKS_AT_ONCE),
    )
    if gone:
        return True
    yield Query("DELETE FROM files WHERE id = ?", (file_id,))
    return False
