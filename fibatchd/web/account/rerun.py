"""`POST /v1/batches/{batch_id}/rerun`: what did not succeed of an ended batch runs again, as a new batch of its kind.

What a new batch of a kind is, that kind knows: inline batches here in the core, others by the plugin that brings them.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import contextmanager

import structlog
from quart import Response, request

from fibatchd import rawjson
from fibatchd.context import Rerun, RerunCall
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Submitted
from fibatchd.errors import ApiError
from fibatchd.store import requests
from fibatchd.store.interface import Store
from fibatchd.store.results import Range
from fibatchd.web import idempotency
from fibatchd.web.access import require_for_creation
from fibatchd.web.account.batches import detail, find_batch
from fibatchd.web.auth import caller
from fibatchd.web.conditional import json_answer
from fibatchd.web.fields import read_fields
from fibatchd.web.front import front
from fibatchd.web.guards import read_body

ROUTE = "POST /v1/batches/{}/rerun"
OUTCOMES = ("failed", "expired", "cancelled")
MAX_BODY_BYTES = 4096
PIECE_ROWS = 1000
PIECE_BYTES = 2**20
RETRY_S = 2
"""A rerun of a full batch takes some seconds."""

log = structlog.get_logger(__name__)


class Reruns:
    """The route. `ways` are those in which batches can be run again, by the `source` of a batch."""

    def __init__(self, ways: Iterable[Rerun]) -> None:
        self._ways = {way.source: way for way in ways}
        self._under_way: set[str] = set()

    async def rerun_batch(self, batch_id: str) -> Response:
        """Create the new batch, and return it in full."""
        who, sent_key = caller(), idempotency.sent_key()
        body = await read_body(request, MAX_BODY_BYTES)
        key = await idempotency.bind(sent_key, ROUTE.format(batch_id), body)
        batch = await idempotency.earlier_batch(who, key)
        if batch is None:
            old = await find_batch(batch_id)
            outcomes = read_outcomes(body)
            total = _count(old, outcomes, front().context.config.batches.max_requests)
            way = self._ways.get(old.source)
            if way is None:
                message = "Batches of this kind cannot be run again"
                raise ApiError(409, message, code="rerun_unsupported", retry=False)
            with self._alone(who.account.id):
                await require_for_creation(who)
                pieces = _submitted(front().context.store, old, outcomes, total)
                batch = await way.rerun(RerunCall(who, old, pieces, key))
            log.info("batch rerun", batch=batch.id, account=who.account.id, of=old.id, requests=total)
        return json_answer(await detail(batch.id))

    @contextmanager
    def _alone(self, account_id: str) -> Iterator[None]:
        """Let an account run one at a time, so that it leaves the others room: ApiError 429 for another."""
        if account_id in self._under_way:
            message = "Your account has another rerun under way; wait until that is answered"
            raise ApiError(429, message, code="rerun_under_way", retry_after=RETRY_S)
        self._under_way.add(account_id)
        try:
            yield
        finally:
            self._under_way.remove(account_id)


def read_outcomes(body: bytes) -> Sequence[str]:
    """Return which requests are to run again. ApiError 400 or InvalidJson for a body that is none."""
    raw = read_fields(body or b"{}", frozenset({"outcomes"})).get("outcomes")
    named = ["failed"] if raw is None else rawjson.decode(raw)
    if not isinstance(named, list) or not named or any(name not in OUTCOMES for name in named):
        message = f"outcomes: expected a list of some of {', '.join(OUTCOMES)}"
        raise ApiError(400, message, code="invalid_value", param="outcomes")
    return named


def _count(batch: Batch, outcomes: Sequence[str], most: int) -> int:
    """Return how many requests are to run again. ApiError 409 where the batch still runs, or there are none; 400 where they
    are more than a batch may have by now."""
    if not batch.is_final:
        message = f"The batch has not finished; its status is {batch.status}"
        raise ApiError(409, message, code="batch_not_finished", retry=False)
    total = sum(int(getattr(batch, name)) for name in set(outcomes))
    if not total:
        message = f"None of the batch's requests is {' or '.join(outcomes)}"
        raise ApiError(409, message, code="nothing_to_rerun", retry=False)
    if total > most:
        raise ApiError(400, f"A batch may hold at most {most} requests", code="too_many_requests_in_batch")
    return total


async def _submitted(
    store: Store, batch: Batch, outcomes: Sequence[str], total: int
) -> AsyncGenerator[Sequence[Submitted], None]:
    """Give the requests in submission order, some at a time. ApiError 404 where the batch was deleted meanwhile."""
    first, count = Range.of(batch).first, 0
    while True:
        piece, first = await store.read(
            requests.submitted, batch, outcomes, first, max_rows=PIECE_ROWS, max_bytes=PIECE_BYTES
        )
        if not piece:
            break
        count += len(piece)
        yield piece
    if count != total:
        raise ApiError(404, "The batch has been deleted", code="not_found")
