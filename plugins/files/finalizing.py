"""Writes the result files of a batch whose requests are over, and ends it: both files and the final status show in one
transaction.

A durable job: one that is cut short starts over, on any daemon, and what was half-written is removed.
"""

from dataclasses import replace

import structlog

from fibatchd.plugin_api import (
    NOW,
    Ahead,
    ApiError,
    Batch,
    Context,
    Policy,
    Query,
    Script,
    Store,
    batches,
    ending,
    jobs,
    new_id,
    one,
    output_lines,
    read_pieces,
    results,
    states,
)

from . import scripts
from .held import JobLost, held
from .scripts import NewFile, Written
from .writing import FileWriter, GivenUp

FINALIZE = "files:finalize"

log = structlog.get_logger(__name__)


class ResultFile:
    """One of the two files of a batch; it comes to be with its first line."""

    def __init__(self, store: Store, job: jobs.Job, batch: Batch, kind: str) -> None:
        self._store = store
        self._job = job
        self._batch = batch
        self._kind = kind
        self._writer: FileWriter | None = None

    async def write(self, lines: bytes) -> None:
        """Add lines. Raises JobLost; GivenUp where the batch was deleted meanwhile; StoreUnavailable."""
        if not lines:
            return
        if self._writer is None:
            filename = f"{self._batch.id}_{self._kind}.jsonl"
            new = NewFile(new_id("file-"), self._batch.account_id, scripts.OUTPUT, filename, self._batch.id)
            await self._store.write(stage, self._job, new)
            self._writer = FileWriter(self._store, new)
        await self._writer.write(lines)

    async def close(self) -> Written | None:
        """Return what was written; None where there was no line."""
        return None if self._writer is None else await self._writer.close()


async def finalize(context: Context, job: jobs.Job) -> None:
    """Do the job. Raises StoreUnavailable; it is then done anew."""
    store = context.store
    try:
        batch = await store.write(begin, job)
        if batch is not None:
            output, errors = await _write(store, job, batch)
            await store.write(end, job, output, errors, context.policy)
            log.info("result files written", batch=batch.id, output=_size(output), errors=_size(errors))
    except (JobLost, GivenUp) as reason:
        log.info("result files are not needed from here any more", batch=job.subject, reason=type(reason).__name__)
    except ApiError:
        log.info("the batch was deleted while its result files were written", batch=job.subject)
    await store.write(finish, job)


async def _write(store: Store, job: jobs.Job, batch: Batch) -> tuple[Written | None, Written | None]:
    """Write both files, in submission order. Raises ApiError where the batch is gone."""
    output, errors = ResultFile(store, job, batch, "output"), ResultFile(store, job, batch, "error")
    whole = results.Range.of(batch)
    async with Ahead(read_pieces(store, batch, whole.first, whole.last, _lines)) as pieces:
        async for succeeded, others in pieces:
            await output.write(succeeded)
            await errors.write(others)
    return await output.close(), await errors.close()


def _lines(piece: results.Piece) -> tuple[bytes, bytes]:
    """Return the lines of requests that succeeded, and those of all others."""
    succeeded, others = piece.split()
    return output_lines(succeeded), output_lines(others)


def _size(written: Written | None) -> int:
    return 0 if written is None else written.size


def begin(job: jobs.Job) -> Script[Batch | None]:
    """Return the batch to write for, what an earlier try left being removed; None where it has ended, or is gone."""
    yield from held(job)
    batch = yield from batches.lock(job.subject)
    yield Query("UPDATE files SET state = 'deleted' WHERE batch_id = ? AND state = 'staging'", (job.subject,))
    if batch is None or batch.deleted_at is not None or batch.is_final:
        return None
    assert batch.status in (states.FINALIZING, states.CANCELLING), batch.status
    return batch


def stage(job: jobs.Job, new: NewFile) -> Script[None]:
    """Begin a result file. Raises JobLost, GivenUp: so none is begun that neither another try nor the end of the batch
    would find."""
    yield from held(job)
    batch = yield from batches.lock(job.subject)
    if batch is None or batch.deleted_at is not None:
        raise GivenUp("the batch was deleted")
    yield from scripts.stage(new)


def end(job: jobs.Job, output: Written | None, errors: Written | None, policy: Policy) -> Script[None]:
    """Publish the files and end the batch. Raises JobLost; GivenUp where the batch was deleted meanwhile."""
    yield from held(job)
    batch = yield from batches.lock(job.subject)
    if batch is None or batch.deleted_at is not None or batch.is_final:
        return
    policy = yield from _kept(batch, policy)
    ((now,),) = yield NOW
    for written in (output, errors):
        if written is not None and not (yield from scripts.publish(written, now, now + policy.retention_s)):
            raise GivenUp("a result file was given up before the batch had ended")
    yield from ending.name_files(batch.id, output.id if output else None, errors.id if errors else None)
    yield from ending.end(batch, policy, now)


def _kept(batch: Batch, policy: Policy) -> Script[Policy]:
    """Return the policy with the retention that the batch asked for: its files stay for as long as itself."""
    row = one((yield Query("SELECT output_expires_after FROM file_batches WHERE batch_id = ?", (batch.id,))))
    return policy if row is None or row[0] is None else replace(policy, retention_s=row[0])


def finish(job: jobs.Job) -> Script[None]:
    """Remove the job, the batch having ended; where it has not, have it done again."""
    if not (yield from jobs.holds(job)):
        return
    batch = yield from batches.lock(job.subject)
    if batch is None or batch.deleted_at is not None or batch.is_final:
        yield from jobs.done(job)
    else:
        ((now,),) = yield NOW
        yield from jobs.postpone(job, now)
