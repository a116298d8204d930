"""What did not succeed of a file batch, run again: its lines become a new input file, and that a new file batch. File and
batch come to be in one transaction, so that neither is there without the other."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

import msgspec

from fibatchd.plugin_api import (
    ApiError,
    Batch,
    Caller,
    Context,
    Query,
    RerunCall,
    Script,
    Submitted,
    admission,
    endpoint_problem,
    idempotency,
    in_worker,
    new_id,
    one,
    rawjson,
)

from . import scripts
from .creating import SOURCE, NoInput, create, new_batch
from .scripts import File, Holdings, NewFile, Written
from .upload import LONGEST_FILENAME, Allowance, not_enabled
from .writing import FileWriter, GivenUp

PREFIX = "rerun_"

Refusal = Holdings | NoInput | admission.Replay | admission.OverLimit


class _NotCreated(Exception):
    """Rolls back the transaction that made the file visible."""

    def __init__(self, outcome: Refusal) -> None:
        super().__init__()
        self.outcome = outcome


class FileReruns:
    """File batches that run lines of an earlier one again; a Rerun."""

    source = SOURCE

    def __init__(self, context: Context) -> None:
        self._context = context

    async def rerun(self, call: RerunCall) -> Batch:
        """Write the lines to a new input file, and create the batch that reads it."""
        context, who, old = self._context, call.caller, call.batch
        if not context.config.is_on("files"):
            raise not_enabled()
        if (problem := endpoint_problem(context, old.endpoint, "endpoint")) is not None:
            raise ApiError(400, problem.message, code=problem.code, param=problem.param)
        allowance = Allowance.of(context.config)
        held = await context.store.read(scripts.holdings, who.account.id)
        allowance.check(held, 0)
        file = NewFile(new_id("file-"), who.account.id, scripts.INPUT, filename_of(old))
        writer = FileWriter(context.store, file)
        published = False
        try:
            await writer.begin()
            async with aclosing(call.requests) as given:
                async for piece in given:
                    await writer.write(await in_worker(lines, piece, old.endpoint))
                    allowance.check(held, writer.size)
            batch = await self._create(call, who, await writer.close(), allowance)
            published = True
        finally:
            if not published:
                await writer.give_up()
        return batch

    async def _create(self, call: RerunCall, who: Caller, written: Written, allowance: Allowance) -> Batch:
        old, context = call.batch, self._context
        new = replace(new_batch(who, old.endpoint, written.id), metadata=old.metadata, rerun_of=old.id)
        outcome: Batch | Refusal
        try:
            outcome = await context.store.write(_publish, new, written, allowance, context.limits, call.key)
        except _NotCreated as refused:
            outcome = refused.outcome
        if isinstance(outcome, Holdings):
            allowance.check(outcome, written.size)
        if isinstance(outcome, NoInput | Holdings):
            raise GivenUp("the file was given up before its batch was created")
        return idempotency.created(outcome)


def _publish(
    new: admission.NewBatch,
    written: Written,
    allowance: Allowance,
    limits: admission.Limits,
    key: admission.IdempotencyKey | None,
) -> Script[Batch]:
    """Make the file visible and create the batch that reads it. Raises _NotCreated, GivenUp."""
    file = yield from scripts.publish_upload(
        new.account_id, written, allowance.retention_s, allowance.storage_bytes, allowance.uploads
    )
    if isinstance(file, Holdings):
        raise _NotCreated(file)
    if not isinstance(file, File):
        raise GivenUp("the file was given up before it was published")
    row = one((yield Query("SELECT output_expires_after FROM file_batches WHERE batch_id = ?", (new.rerun_of,))))
    outcome = yield from create(new, file.id, row[0] if row else None, limits, key)
    if not isinstance(outcome, Batch):
        raise _NotCreated(outcome)
    return outcome


def lines(requests: Sequence[Submitted], endpoint: str) -> bytes:
    """Return requests as lines of an input file."""
    items = (
        {"custom_id": one.custom_id, "method": "POST", "url": endpoint, "body": msgspec.Raw(one.body)}
        for one in requests
    )
    return b"".join(rawjson.jsonl_line(msgspec.json.encode(item)) + b"\n" for item in items)


def filename_of(batch: Batch) -> str:
    """Return a name for the new file, after that of the old one."""
    old = batch.label or f"{batch.id}.jsonl"
    return (old if old.startswith(PREFIX) else f"{PREFIX}{old}")[:LONGEST_FILENAME]
