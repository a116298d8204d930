"""Creating a Message Batch. The form of the whole is checked at once and refuses the batch; each request's `params` are
checked by themselves, and one that is refused is stored as failed while the others run."""

import re
from collections.abc import Sequence

import msgspec

from fibatchd.plugin_api import (
    ApiError,
    Batch,
    Caller,
    Context,
    Failure,
    InvalidJson,
    Model,
    NewRequest,
    Problem,
    Target,
    UnknownMember,
    admission,
    idempotency,
    in_worker,
    new_id,
    pieces,
    rawjson,
    store_batch,
)

from .endpoint import PATH
from .fields import EXTRA, REQUIRED, is_null, shown

API = "message_batches"
PREFIX = "msgbatch_"
WINDOW_S = 24 * 3600

_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
_MODEL_NOT_FOUND = "model_not_found"
_NO_MODEL = ""
"""The model of a request that never runs. No model has this name, so nothing looks for its work."""


async def create(
    context: Context, caller: Caller, body: bytes, version: str, key: admission.IdempotencyKey | None
) -> Batch:
    """Check and store a batch. Raises ApiError or InvalidJson, and then nothing is stored."""
    settings = context.config.batches
    items = await in_worker(_split, body, settings.max_requests)
    checker = Checker(context, caller, version)
    requests: list[NewRequest] = []
    for start, piece in pieces(items):
        requests += await in_worker(checker.check, start, piece)
    del items
    new = admission.NewBatch(
        id=new_id(PREFIX),
        api=API,
        source=API,
        account_id=caller.account.id,
        key_id=caller.key.id,
        endpoint=PATH,
        window_s=WINDOW_S,
        options=msgspec.json.encode({"version": version}).decode(),
    )
    return idempotency.created(await store_batch(context, new, requests, key))


def _split(body: bytes, most: int) -> Sequence[msgspec.Raw]:
    """Return the items of the body's `requests`."""
    try:
        members = rawjson.read_known(body, frozenset({"requests"}), null_others=True)
    except UnknownMember as unknown:
        raise _refused(shown(unknown.name), EXTRA) from None
    raw = members.get("requests")
    if raw is None or is_null(raw):
        raise _refused("requests", REQUIRED)
    try:
        items = rawjson.split_array(raw, most)
    except InvalidJson as error:
        raise _refused("requests", str(error)) from None
    if not items:
        raise _refused("requests", "must not be empty")
    if len(items) > most:
        raise _refused("requests", f"a batch may hold at most {most} requests")
    return items


class Checker:
    """Checks a batch's items in order."""

    def __init__(self, context: Context, caller: Caller, version: str) -> None:
        self._seen: set[str] = set()
        self._target = Target(
            context.config,
            caller.account,
            caller.key,
            context.endpoints[PATH],
            batch=True,
            drained=context.drained,
            options={"version": version},
        )

    def check(self, start: int, items: Sequence[msgspec.Raw]) -> list[NewRequest]:
        """Check the items at positions `start` on. Raises ApiError 400 for the first whose own form is wrong."""
        return [self._check(f"requests.{start + offset}", bytes(item)) for offset, item in enumerate(items)]

    def _check(self, where: str, text: bytes) -> NewRequest:
        try:
            members = rawjson.read_object(text)
        except InvalidJson as error:
            raise _refused(where, str(error)) from None
        custom_id = self._custom_id(where, members.get("custom_id"))
        if (twice := rawjson.duplicate_member(text, members)) is not None:
            raise _refused(f"{where}.{shown(twice)}", "occurs twice")
        for name, raw in members.items():
            if name not in ("custom_id", "params") and not is_null(raw):
                raise _refused(f"{where}.{shown(name)}", EXTRA)
        params = bytes(members.get("params", b"null"))
        verdict = self._judge(params)
        if isinstance(verdict, Model):
            return NewRequest(custom_id, verdict.id, params)
        return NewRequest(custom_id, _NO_MODEL, params, _failure(verdict))

    def _custom_id(self, where: str, raw: msgspec.Raw | None) -> str:
        where = f"{where}.custom_id"
        value = None if raw is None else rawjson.decode(raw)
        if value is None:
            raise _refused(where, REQUIRED)
        if not isinstance(value, str):
            raise _refused(where, "expected a string")
        if not _CUSTOM_ID.fullmatch(value):
            raise _refused(where, "must be 1 to 64 letters, digits, _ or -")
        if value in self._seen:
            raise _refused(where, f"'{value}' is used by an earlier request of the batch")
        self._seen.add(value)
        return value

    def _judge(self, params: bytes) -> Model | Problem:
        if params == b"null":
            return Problem(f"params: {REQUIRED}")
        if not params.startswith(b"{"):
            return Problem("params: expected an object")
        return self._target.judge(params)


def _failure(problem: Problem) -> Failure:
    if problem.code == _MODEL_NOT_FOUND:
        return Failure(_MODEL_NOT_FOUND, problem.message, 404)
    return Failure("invalid_request", problem.message, 400)


def _refused(path: str, why: str) -> ApiError:
    return ApiError(400, f"{path}: {why}", code="invalid_request", param=path)
