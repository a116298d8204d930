"""The `Idempotency-Key` header: a create call that is sent twice creates once."""

import hashlib
import re

from quart import request

from fibatchd.context import Caller
from fibatchd.domain.batches import Batch
from fibatchd.errors import ApiError
from fibatchd.store import admission
from fibatchd.store.admission import IdempotencyKey, OverLimit, Replay
from fibatchd.web.front import front
from fibatchd.worker import in_worker

HEADER = "Idempotency-Key"

_KEY = re.compile(r"[!-~](?:[ -~]{0,253}[!-~])?")


def sent_key() -> str | None:
    """Return the current request's key, if it has one. ApiError 400 for one that is not 1 to 255 visible ASCII characters,
    spaces inside allowed."""
    sent = request.headers.getlist(HEADER)
    if not sent:
        return None
    if len(sent) > 1 or not _KEY.fullmatch(sent[0]):
        message = f"{HEADER}: expected 1 to 255 printable ASCII characters"
        raise ApiError(400, message, code="invalid_idempotency_key", param=HEADER)
    return sent[0]


async def bind(key: str | None, route: str, body: bytes) -> IdempotencyKey | None:
    """Tie a key to the call that it came with: the same request is the same route and the same bytes."""
    if key is None:
        return None
    return IdempotencyKey(key, route, await in_worker(_sha256, body))


async def earlier_batch(caller: Caller, key: IdempotencyKey | None) -> Batch | None:
    """Return the batch that an earlier call with this key created, as it is now; None where there was no such call.

    ApiError 409 where that call was another request, 410 where its batch has been deleted.
    """
    if key is None:
        return None
    replay = await front().context.store.read(admission.replay, caller.account.id, key)
    return None if replay is None else created(replay)


def created(outcome: Batch | Replay | OverLimit) -> Batch:
    """Return the batch that publishing gave. ApiError 409 or 410 as above; 429 where the account has too much unfinished."""
    match outcome:
        case Batch():
            return outcome
        case Replay(batch=None):
            message = f"The batch that this {HEADER} created has been deleted"
            raise ApiError(410, message, code="idempotency_key_expired")
        case Replay(same=False):
            message = f"This {HEADER} was already used for a different request"
            raise ApiError(409, message, code="idempotency_key_reused", retry=False)
        case Replay(batch=Batch() as batch):
            return batch
        case OverLimit(what=what, limit=limit):
            message = (
                f"At most {limit} unfinished {what if what == 'batches' else 'batch requests'} are allowed at once"
            )
            raise ApiError(429, message, code=f"too_many_unfinished_{what}", retry=False)
    raise AssertionError(outcome)


def _sha256(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
