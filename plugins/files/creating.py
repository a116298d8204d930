"""The form of `POST /v1/batches` with `input_file_id`: the batch is there at once, and its file is checked behind."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from fibatchd.plugin_api import (
    NOW,
    ApiError,
    Batch,
    Caller,
    Context,
    CreateCall,
    Query,
    Script,
    admission,
    batches,
    endpoint_problem,
    idempotency,
    is_id,
    jobs,
    new_id,
    rawjson,
    states,
)

from . import scripts
from .expiry import read_expiry
from .finalizing import FINALIZE
from .scripts import File
from .upload import not_enabled
from .validation import API, VALIDATE

SOURCE = "file"
WINDOW = "24h"
WINDOW_S = 86_400.0


@dataclass(frozen=True, slots=True)
class NoInput:
    """The file that a batch names cannot be its input, and why."""

    message: str


class FileBatches:
    """Batches from an uploaded file; a BatchInput."""

    member = "input_file_id"
    allowed = frozenset({"input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"})

    def __init__(self, context: Context) -> None:
        self._context = context

    async def create(self, call: CreateCall) -> Batch:
        """Create the batch, and leave its file to be validated."""
        if not self._context.config.is_on("files"):
            raise not_enabled()
        members = call.members
        file_id = _string(members, "input_file_id")
        endpoint = _string(members, "endpoint")
        if (problem := endpoint_problem(self._context, endpoint, "endpoint")) is not None:
            raise ApiError(400, problem.message, code=problem.code, param=problem.param)
        if _string(members, "completion_window") != WINDOW:
            raise _refused("completion_window", f"must be {WINDOW}")
        expiry = members.get("output_expires_after")
        keep_s = None if expiry is None else read_expiry(rawjson.decode(expiry), "output_expires_after")
        new = replace(new_batch(call.caller, endpoint, file_id), metadata=call.metadata)
        created = await self._context.store.write(create, new, file_id, keep_s, self._context.limits, call.key)
        if isinstance(created, NoInput):
            raise _refused("input_file_id", created.message)
        return idempotency.created(created)


def new_batch(caller: Caller, endpoint: str, file_id: str) -> admission.NewBatch:
    """Return what a batch from a file is before it is stored."""
    return admission.NewBatch(
        id=new_id("batch_"),
        api=API,
        source=SOURCE,
        account_id=caller.account.id,
        key_id=caller.key.id,
        endpoint=endpoint,
        window_s=WINDOW_S,
        input_file_id=file_id,
        finalizer=FINALIZE,
    )


def create(
    new: admission.NewBatch,
    file_id: str,
    keep_s: int | None,
    limits: admission.Limits,
    key: admission.IdempotencyKey | None,
) -> Script[Batch | NoInput | admission.Replay | admission.OverLimit]:
    """Store a batch that reads its requests from a file, unless its key was used meanwhile, the file is no input, or a
    limit would be passed; then nothing is stored."""
    limit = yield from admission.over_limit(new.account_id, new.id, 0, limits)
    file = yield from _input(new.account_id, file_id)
    if key is not None:
        write = limit is None and isinstance(file, File)
        earlier = yield from admission.claim_key(new.account_id, key, new.id, write=write)
        if earlier is not None:
            return earlier
    if isinstance(file, NoInput):
        return file
    if limit is not None:
        return limit
    yield from admission.insert(replace(new, label=file.filename), states.VALIDATING)
    yield Query(
        "INSERT INTO file_batches (batch_id, file_id, output_expires_after) VALUES (?, ?, ?)", (new.id, file_id, keep_s)
    )
    ((now,),) = yield NOW
    yield from jobs.enqueue(VALIDATE, new.id, now)
    batch = yield from batches.get(new.account_id, new.id, API)
    assert batch is not None
    return batch


def _input(account_id: str, file_id: str) -> Script[File | NoInput]:
    """Return the file, which cannot be deleted then until the transaction ends; or why it cannot be read."""
    file = None
    if is_id(file_id, "file-"):
        yield Query("SELECT 1 FROM files WHERE id = ? FOR SHARE", (file_id,))
        file = yield from scripts.get(account_id, file_id)
    if file is None:
        return NoInput("there is no file with this ID, or it is not ready")
    if file.purpose != scripts.INPUT:
        return NoInput("the file was not uploaded with the purpose batch")
    return file


def _string(members: Any, name: str) -> str:
    raw: msgspec.Raw | None = members.get(name)
    if raw is None:
        raise ApiError(400, f"{name}: missing, expected a string", code="missing_required_parameter", param=name)
    value = rawjson.decode(raw)
    if not isinstance(value, str):
        raise ApiError(400, f"{name}: expected a string", code="invalid_type", param=name)
    return value


def _refused(param: str, why: str) -> ApiError:
    return ApiError(400, f"{param}: {why}", code="invalid_value", param=param)
