"""`/v1/batches/{batch_id}/results`, a page at a time, and `output.jsonl`, the whole of a finished batch. Both are sent
while they are read."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from quart import Blueprint, Response, request

from fibatchd.domain.batches import Batch
from fibatchd.errors import ApiError
from fibatchd.ids import batch_request_id, parse_batch_request_id
from fibatchd.store.interface import Store
from fibatchd.store.results import Range
from fibatchd.web import paging
from fibatchd.web.access import require_batches
from fibatchd.web.ahead import Ahead
from fibatchd.web.batches import find_batch
from fibatchd.web.exports import export
from fibatchd.web.fixed import FixedBytes, fixed_answer
from fibatchd.web.front import front
from fibatchd.web.reading import read_piece, read_pieces
from fibatchd.web.render import list_frame, list_object, result_objects

blueprint = Blueprint("results", __name__)
blueprint.before_request(require_batches)


@blueprint.get("/v1/batches/<batch_id>/results")
async def list_results(batch_id: str) -> Response:
    """Return a page of the batch's requests with their outcomes, in submission order."""
    limit = paging.limit(100, 1000)
    after = _after()
    batch = await find_batch(batch_id)
    whole = Range.of(batch)
    first = whole.first if after is None else max(whole.first, after + 1)
    last = min(whole.last, first + limit - 1)
    if last < first:
        return Response(list_object([], [], has_more=False), content_type="application/json")
    store = front().context.store
    frame = list_frame(batch_request_id(first), batch_request_id(last), has_more=last < whole.last)
    opening, number = await read_piece(store, batch, first, last, result_objects)
    if number > last:
        return Response(opening.join(frame), content_type="application/json")
    return Response(Ahead(_page(store, batch, frame, opening, number, last)), content_type="application/json")


@blueprint.get("/v1/batches/<batch_id>/output.jsonl")
async def download(batch_id: str) -> Response:
    """Return all results of a finished batch, a line each. ApiError 409 before it has finished."""
    batch = await find_batch(batch_id)
    if not batch.is_final:
        message = f"The batch has not finished; its status is {batch.status}"
        raise ApiError(409, message, code="batch_not_finished", retry=False)
    state = front()
    store = state.context.store
    digest = await state.digests.of(store, batch)
    content = FixedBytes(digest.sha256, digest.size, "application/jsonl", f"{batch.id}.jsonl")
    return fixed_answer(content, partial(export, store, batch, digest), request.method, request.headers)


async def _page(
    store: Store, batch: Batch, frame: tuple[bytes, bytes], opening: bytes, number: int, last: int
) -> AsyncGenerator[bytes, None]:
    """Give a page piece by piece: its frame, which is known beforehand, for numbers are consecutive; the items that were
    read already; and those numbered `number` to `last`."""
    before, behind = frame
    yield before + opening
    async with aclosing(read_pieces(store, batch, number, last, result_objects)) as pieces:
        async for items in pieces:
            yield b"," + items
    yield behind


def _after() -> int | None:
    text = paging.cursor("after", lambda text: parse_batch_request_id(text) is not None, "batch_req_42")
    return None if text is None else parse_batch_request_id(text)
