"""Checks the input file of a batch in the background, then stores its requests and opens the batch, whole or not at all.

A durable job: one that is cut short starts over, on any daemon. The file is read once, a bounded piece at a time: what is
right so far is stored where nobody sees it, until all lines have been judged.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass

import structlog

from fibatchd.plugin_api import (
    Account,
    Ahead,
    Context,
    Key,
    NewRequest,
    Policy,
    Query,
    Script,
    Store,
    Target,
    accounts,
    admission,
    batches,
    ending,
    in_worker,
    jobs,
    one,
    states,
)

from . import scripts
from .checking import Checker, LineProblem, errors_object
from .held import JobLost, held
from .lines import Line, LineSplitter

VALIDATE = "files:validate"
API = "batches"
LINES_AT_ONCE = 2000
SHORTEST_LINE = len('{"custom_id":"","method":"POST","url":"","body":{}}')
"""Of those that are right. Before a file is read, its size tells how many there may be at most."""

log = structlog.get_logger(__name__)


class Over(Exception):
    """The batch was cancelled, expired, failed or deleted while its file was checked."""


@dataclass(frozen=True, slots=True)
class Work:
    """A batch whose file, of `size` bytes, is to be checked, and by whose rights."""

    batch_id: str
    endpoint: str
    file_id: str
    size: int
    account: Account
    key: Key


async def validate(context: Context, job: jobs.Job) -> None:
    """Do the job. Raises StoreUnavailable; it is then done anew."""
    store = context.store
    with suppress(JobLost):
        work = await store.read(work_of, job.subject)
        try:
            if work is not None:
                await _validate(context, job, work)
        except Over:
            log.info("the batch ended while its input file was checked", batch=job.subject)
        # What was stored of a batch that will not run; one that was opened keeps all it has.
        while await store.write(retract, job):
            pass
        await store.write(finish, job)


async def _validate(context: Context, job: jobs.Job, work: Work) -> None:
    settings = context.config.batches
    checker = Checker(_target(context, work), most_requests=settings.max_requests, longest_line=settings.max_line_bytes)
    staging = Staging(context, job, work, min(settings.max_requests, work.size // SHORTEST_LINE + 1))
    async with Ahead(_good_requests(read_lines(context.store, work, settings.max_line_bytes), checker)) as pieces:
        async for requests in pieces:
            await staging.append(requests)
    problems = checker.finish() or await staging.open()
    if problems:
        await context.store.write(refuse, job, errors_object(problems), context.policy)
    log.info("input file checked", batch=work.batch_id, requests=checker.total, problems=len(problems))


async def _good_requests(
    lines: AsyncGenerator[list[Line], None], checker: Checker
) -> AsyncGenerator[list[NewRequest], None]:
    """Check all lines, some at a time, and give their requests until one is wrong."""
    async with aclosing(lines) as pieces:
        async for piece in pieces:
            requests = await in_worker(checker.check, piece)
            if checker.full:
                break
            if not checker.problems:
                yield requests


def _target(context: Context, work: Work) -> Target:
    endpoint = context.endpoints[work.endpoint]
    return Target(context.config, work.account, work.key, endpoint, batch=True, drained=context.drained)


class Staging:
    """Stores a batch's requests while the rest of its file is still to be checked. Nobody sees them before `open`; those of a
    batch that is not opened are retracted in the end. They are `most` at most."""

    def __init__(self, context: Context, job: jobs.Job, work: Work, most: int) -> None:
        self._store = context.store
        self._limits = context.limits
        self._job = job
        self._work = work
        self._most = most
        self._total = 0
        self._model = ""
        self._reserved: admission.Reserved | admission.OverLimit | None = None

    async def append(self, requests: list[NewRequest]) -> None:
        """Store the next requests, unless the account would have too many. Raises StoreUnavailable, JobLost, Over."""
        if self._reserved is None:
            while await self._store.write(retract, self._job):
                pass
            self._model = requests[0].model
            self._reserved = await self._store.write(
                reserve, self._job, self._work, self._model, self._most, len(requests), self._limits
            )
        if isinstance(self._reserved, admission.Reserved):
            await self._store.write(append, self._job, self._reserved, self._total, requests)
            self._total += len(requests)

    async def open(self) -> list[LineProblem]:
        """Open the batch, all of its requests being stored; return what stands against it, and then it is not open."""
        reserved: admission.Reserved | admission.OverLimit | None = self._reserved
        assert reserved is not None
        if isinstance(reserved, admission.Reserved):
            reserved = await self._store.write(
                open_checked, self._job, self._work, reserved, self._model, self._total, self._limits
            )
        return [] if reserved is None else _too_many_unfinished(reserved)


def _too_many_unfinished(over_limit: admission.OverLimit) -> list[LineProblem]:
    message = f"With this file you would have more than {over_limit.limit} unfinished batch requests"
    return [LineProblem("too_many_unfinished_requests", message, None, None)]


async def read_lines(store: Store, work: Work, longest: int) -> AsyncGenerator[list[Line], None]:
    """Give the lines of the input file, some at a time. Raises Over once the batch has ended."""
    splitter = LineSplitter(longest)
    position = 0
    while position < work.size:
        start, data = await store.read(read_chunk, work, position)
        position = start + len(data)
        lines = await in_worker(splitter.feed, data)
        for first in range(0, len(lines), LINES_AT_ONCE):
            yield lines[first : first + LINES_AT_ONCE]
    if lines := splitter.close():
        yield lines


def work_of(batch_id: str) -> Script[Work | None]:
    """Return what there is to do for a batch; None where it has ended or was opened before."""
    row = one(
        (
            yield Query(
                "SELECT f.id, f.bytes, f.account_id FROM file_batches b JOIN files f ON f.id = b.file_id "
                "WHERE b.batch_id = ?",
                (batch_id,),
            )
        )
    )
    if row is None or not (yield from admission.is_unopened(batch_id)):
        return None
    file_id, size, account_id = row
    batch = yield from batches.get(account_id, batch_id, API)
    account = yield from accounts.get_account(account_id)
    assert batch is not None
    key = yield from accounts.get_key(batch.key_id)
    assert account is not None
    assert key is not None
    return Work(batch_id, batch.endpoint, file_id, size, account, key)


def read_chunk(work: Work, position: int) -> Script[tuple[int, bytes]]:
    """Return the piece of the input file that holds the byte at `position`, and where it starts. Raises Over."""
    if not (yield from admission.is_unopened(work.batch_id)):
        raise Over
    found = yield from scripts.chunk_at(work.file_id, position)
    assert found is not None, "the bytes are kept for as long as the batch may read them"
    return found


def retract(job: jobs.Job) -> Script[bool]:
    """Remove a chunk of what an earlier try stored, False where nothing is left. Raises JobLost."""
    yield from held(job)
    return (yield from admission.retract(job.subject))


def reserve(
    job: jobs.Job, work: Work, model: str, most: int, first: int, limits: admission.Limits
) -> Script[admission.Reserved | admission.OverLimit]:
    """Take numbers for `most` requests, unless the `first` of them would be too many: so they are not stored in vain. Raises
    JobLost, Over."""
    yield from held(job)
    over_limit = yield from _too_many(work, first, limits)
    if over_limit is not None:
        return over_limit
    if not (yield from admission.is_unopened(work.batch_id, stay=True)):
        raise Over
    return (yield from admission.reserve(work.batch_id, [model], most))


def append(job: jobs.Job, reserved: admission.Reserved, offset: int, requests: list[NewRequest]) -> Script[None]:
    """Store some of the requests. Raises JobLost, Over."""
    yield from held(job)
    if not (yield from admission.append(reserved, offset, requests)):
        raise Over


def open_checked(
    job: jobs.Job, work: Work, reserved: admission.Reserved, model: str, total: int, limits: admission.Limits
) -> Script[admission.OverLimit | None]:
    """Make the batch run, unless its requests would be too many by now. Raises JobLost, Over."""
    yield from held(job)
    over_limit = yield from _too_many(work, total, limits)
    if over_limit is not None:
        return over_limit
    queued = {model: total}
    if not (yield from admission.open_batch(reserved, queued, 0, total, status=states.IN_PROGRESS, model=model)):
        raise Over
    return None


def _too_many(work: Work, total: int, limits: admission.Limits) -> Script[admission.OverLimit | None]:
    # The number of batches was judged when this one was created; it stands whatever the limit is now.
    _, others = yield from admission.unfinished(work.account.id, besides=work.batch_id)
    return admission.OverLimit("requests", limits.requests) if others + total > limits.requests else None


def refuse(job: jobs.Job, errors: str, policy: Policy) -> Script[None]:
    """End the batch as failed, for what is wrong with its file. Raises JobLost."""
    yield from held(job)
    yield from ending.refuse(job.subject, errors, policy)


def finish(job: jobs.Job) -> Script[None]:
    """Remove the job, and let go of the file. Raises JobLost."""
    yield from held(job)
    yield Query("UPDATE file_batches SET reading = 0 WHERE batch_id = ?", (job.subject,))
    yield from jobs.done(job)
