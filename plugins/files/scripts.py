"""Scripts on files: written piece by piece while nobody sees them, published whole, read, listed, deleted.

A deleted file is gone at once for readers; its bytes go in the background (see `housekeeping`).
"""

from dataclasses import dataclass, fields

from fibatchd.plugin_api import NOW, Batch, Query, Script, accounts, one

HOUR_S = 3600.0

INPUT = "batch"
OUTPUT = "batch_output"


@dataclass(frozen=True, slots=True)
class File:
    """A file that readers see; field names are columns. Times are Unix seconds, `sha256` is in hex.

    purpose   "batch" for an upload, "batch_output" for a batch's result file
    batch_id  the batch that a result file belongs to
    """

    id: str
    account_id: str
    batch_id: str | None
    purpose: str
    filename: str
    bytes: int
    sha256: str
    created_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class NewFile:
    """What a file is before it has bytes."""

    id: str
    account_id: str
    purpose: str
    filename: str
    batch_id: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What was written to a staged file: its size in bytes and its SHA-256 in hex."""

    id: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Holdings:
    """What an account has uploaded: bytes that are kept, and files within the last hour."""

    stored: int
    uploads: int


COLUMNS = ", ".join(field.name for field in fields(File))
_VISIBLE = "state = 'ready' AND expires_at > ?"


def stage(new: NewFile) -> Script[None]:
    """Begin a file that nobody sees until it is published."""
    ((now,),) = yield NOW
    yield Query(
        "INSERT INTO files (id, account_id, batch_id, purpose, filename, state, created_at, written_at) "
        "VALUES (?, ?, ?, ?, ?, 'staging', ?, ?)",
        (new.id, new.account_id, new.batch_id, new.purpose, new.filename, now, now),
    )


def append(file_id: str, start: int, data: bytes) -> Script[bool]:
    """Store the bytes of a staged file from position `start` on. False where the file was given up meanwhile."""
    ((now,),) = yield NOW
    rows = yield Query(
        "UPDATE files SET written_at = ? WHERE id = ? AND state = 'staging' RETURNING id", (now, file_id)
    )
    if rows:
        yield Query("INSERT INTO file_chunks (file_id, start, data) VALUES (?, ?, ?)", (file_id, start, data))
    return bool(rows)


def publish(written: Written, now: float, expires_at: float) -> Script[File | None]:
    """Make a staged file visible. None where it was given up meanwhile."""
    row = one(
        (
            yield Query(
                "UPDATE files SET state = 'ready', bytes = ?, sha256 = ?, created_at = ?, expires_at = ? "
                f"WHERE id = ? AND state = 'staging' RETURNING {COLUMNS}",
                (written.size, written.sha256, now, expires_at, written.id),
            )
        )
    )
    return File(*row) if row else None


def give_up(file_id: str) -> Script[None]:
    """Discard a staged file. One that was published after all stays."""
    yield Query("UPDATE files SET state = 'deleted' WHERE id = ? AND state = 'staging'", (file_id,))


def holdings(account_id: str) -> Script[Holdings]:
    """Count what an account has uploaded."""
    ((now,),) = yield NOW
    ((stored,),) = yield Query(
        f"SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM files WHERE account_id = ? AND purpose = ? AND {_VISIBLE}",
        (account_id, INPUT, now),
    )
    ((uploads,),) = yield Query(
        "SELECT COUNT(*) FROM file_uploads WHERE account_id = ? AND uploaded_at > ?", (account_id, now - HOUR_S)
    )
    return Holdings(int(stored), uploads)


def publish_upload(
    account_id: str, written: Written, keep_s: float, most_bytes: int, most_uploads: int
) -> Script[File | Holdings | None]:
    """Make an upload visible, unless the account would then have more than it may: returns what it has, and nothing
    changes. None where the file was given up meanwhile."""
    yield from accounts.hold(account_id)
    held = yield from holdings(account_id)
    if held.uploads >= most_uploads or held.stored + written.size > most_bytes:
        return held
    ((now,),) = yield NOW
    yield Query(
        "INSERT INTO file_uploads (file_id, account_id, uploaded_at) VALUES (?, ?, ?)", (written.id, account_id, now)
    )
    return (yield from publish(written, now, now + keep_s))


def get(account_id: str, file_id: str) -> Script[File | None]:
    """Return an account's file; None where it is another's, deleted, expired or unknown."""
    ((now,),) = yield NOW
    row = one(
        (
            yield Query(
                f"SELECT {COLUMNS} FROM files WHERE id = ? AND account_id = ? AND {_VISIBLE}",
                (file_id, account_id, now),
            )
        )
    )
    return File(*row) if row else None


def page(
    account_id: str, *, purpose: str | None, after: str | None, limit: int, newest_first: bool
) -> Script[tuple[list[File], bool]]:
    """Return up to `limit` of an account's files in the order of their ids, and whether more follow. A cursor is compared,
    not looked up."""
    ((now,),) = yield NOW
    order, beyond = ("DESC", "<") if newest_first else ("ASC", ">")
    conditions, values = ["account_id = ?", _VISIBLE], [account_id, now]
    if purpose is not None:
        conditions.append("purpose = ?")
        values.append(purpose)
    if after is not None:
        conditions.append(f"id {beyond} ?")
        values.append(after)
    rows = yield Query(
        f"SELECT {COLUMNS} FROM files WHERE {' AND '.join(conditions)} ORDER BY id {order} LIMIT ?",
        (*values, limit + 1),
    )
    return [File(*row) for row in rows[:limit]], len(rows) > limit


def delete(account_id: str, file_id: str) -> Script[bool]:
    """Delete an account's file for good. False where there is none."""
    ((now,),) = yield NOW
    rows = yield Query(
        f"UPDATE files SET state = 'deleted' WHERE id = ? AND account_id = ? AND {_VISIBLE} RETURNING id",
        (file_id, account_id, now),
    )
    return bool(rows)


def chunk_at(file_id: str, position: int) -> Script[tuple[int, bytes] | None]:
    """Return the piece of a file that holds the byte at `position`, and where it starts. None where the bytes are gone."""
    row = one(
        (
            yield Query(
                "SELECT start, data FROM file_chunks WHERE file_id = ? AND start <= ? ORDER BY start DESC LIMIT 1",
                (file_id, position),
            )
        )
    )
    return (row[0], bytes(row[1])) if row else None


def batch_deleted(batch: Batch) -> Script[None]:
    """Delete the result files of a batch, and let go of its input, with the batch."""
    yield Query("UPDATE files SET state = 'deleted' WHERE batch_id = ? AND state <> 'deleted'", (batch.id,))
    yield Query("DELETE FROM file_batches WHERE batch_id = ?", (batch.id,))
