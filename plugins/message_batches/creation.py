"""Creating a Message Batch. The form of the whole is checked at once and refuses the batch; each request's `params` are
checked by themselves, and one that is refused is stored as failed while the others run."""

import re
from collections.abc import Sequence
from dataclasses import replace

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
    RerunCall,
    Submitted,
    Target,
    UnknownMember,
    admission,
    check_in_pieces,
    front,
    idempotency,
    in_worker,
    is_null,
    new_id,
    rawjson,
    store_batch,
    store_checked,
)

from .endpoint import PATH
from .fields import EXTRA, REQUIRED, shown
from .versions import FIRST

API = "message_batches"
PREFIX = "msgbatch_"
EXTENSION = "message_batches"
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
    checked = check_in_pieces(checker.check, items)
    return idempotency.created(await store_checked(context, lambda: _new(caller, version), len(items), checked, key))


class MessageReruns:
    """Message Batches that run requests of an earlier one again, by the version of the API that it was created with; a
    Rerun."""

    source = API

    def __init__(self, context: Context) -> None:
        self._context = context

    async def rerun(self, call: RerunCall) -> Batch:
        """Check the requests anew and store them; one that is refused is stored as failed."""
        if not self._context.config.is_on(EXTENSION):
            raise not_enabled()
        old = call.batch
        version = msgspec.json.decode(old.options or "{}").get("version", FIRST)
        checker = Checker(self._context, call.caller, version)
        requests: list[NewRequest] = []
        async with front().rerun_bodies(call.requests) as given:
            async for piece in given:
                requests += await in_worker(checker.check_again, piece)
            new = replace(_new(call.caller, version), metadata=old.metadata, rerun_of=old.id)
            stored = await store_batch(self._context, new, requests, call.key)
        return idempotency.created(stored)


def not_enabled() -> ApiError:
    """Return the refusal of all that creates a batch while the extension is switched off."""
    return ApiError(403, "Message Batches are not enabled", code="message_batches_disabled")


def _new(caller: Caller, version: str) -> admission.NewBatch:
    return admission.NewBatch(
        id=new_id(PREFIX),
        api=API,
        source=API,
        account_id=caller.account.id,
        key_id=caller.key.id,
        endpoint=PATH,
        window_s=WINDOW_S,
        options=msgspec.json.encode({"version": version}).decode(),
    )


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
        return self._checked(custom_id, bytes(members.get("params", b"null")))

    def check_again(self, items: Sequence[Submitted]) -> list[NewRequest]:
        """Check requests of an earlier batch, the form of which was good."""
        return [self._checked(item.custom_id, item.body) for item in items]

    def _checked(self, custom_id: str, params: bytes) -> NewRequest:
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
