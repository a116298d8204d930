"""`/v1/messages` and `/v1/messages/batches`, each also under `/anthropic`, where Anthropic's clients look for them."""

from typing import Any

import msgspec
import structlog
from quart import Blueprint, Response, request

from fibatchd.plugin_api import (
    Ahead,
    ApiError,
    Batch,
    base_url,
    batches,
    caller,
    front,
    idempotency,
    interactive,
    is_id,
    paging,
    read_pieces,
    require_batches,
    require_for_creation,
    results,
)

from .creation import API, EXTENSION, PREFIX, create, not_enabled
from .endpoint import PATH
from .headers import interactive_options, refuse_beta, refuse_unserved, sent_version
from .rendering import batch_object, page_object, result_lines

ROUTE = f"POST {PATH}/batches"
ANTHROPIC = "/anthropic"

log = structlog.get_logger(__name__)


def blueprints() -> list[Blueprint]:
    """Return the routes, under both prefixes."""
    return [blueprint for prefix in ("", ANTHROPIC) for blueprint in (_interactive(prefix), _batches(prefix))]


def _interactive(prefix: str) -> Blueprint:
    routes = Blueprint(f"messages{prefix.replace('/', '_')}", __name__, url_prefix=prefix or None)
    routes.post(PATH)(send_message)
    return routes


def _batches(prefix: str) -> Blueprint:
    routes = Blueprint(f"message_batches{prefix.replace('/', '_')}", __name__, url_prefix=prefix or None)
    routes.before_request(require_batches)
    routes.post(f"{PATH}/batches")(create_batch)
    routes.get(f"{PATH}/batches")(list_batches)
    routes.get(f"{PATH}/batches/<batch_id>")(show_batch)
    routes.delete(f"{PATH}/batches/<batch_id>")(delete_batch)
    routes.post(f"{PATH}/batches/<batch_id>/cancel")(cancel_batch)
    routes.get(f"{PATH}/batches/<batch_id>/results")(show_results)
    return routes


async def send_message() -> Response:
    """Run a message now."""
    return await interactive(PATH, interactive_options())


async def create_batch() -> Response:
    """Create a batch."""
    who, context = caller(), front().context
    version = sent_version()
    refuse_beta()
    refuse_unserved()
    sent_key = idempotency.sent_key()
    async with front().create_body(request) as body:
        key = await idempotency.bind(sent_key, ROUTE, body)
        batch = await idempotency.earlier_batch(who, key)
        if batch is None:
            if not context.config.is_on(EXTENSION):
                raise not_enabled()
            await require_for_creation(who)
            batch = await create(context, who, body, version, key)
            log.info("batch created", batch=batch.id, account=who.account.id, form=API, requests=batch.total)
    return _answer(_shown(batch))


async def list_batches() -> Response:
    """Return a page of the account's batches, newest first."""
    limit = paging.limit(20, 1000)
    after, before = paging.id_cursor("after_id", PREFIX), paging.id_cursor("before_id", PREFIX)
    if after is not None and before is not None:
        raise ApiError(400, "before_id: cannot be used together with after_id", param="before_id")
    store = front().context.store
    found, has_more = await store.read(batches.page, caller().account.id, API, after=after, before=before, limit=limit)
    return _answer(page_object([_shown(batch) for batch in found], has_more=has_more))


async def show_batch(batch_id: str) -> Response:
    """Return one batch."""
    return _answer(_shown(await _find(batch_id)))


async def cancel_batch(batch_id: str) -> Response:
    """Cancel a batch, and return it as it is then."""
    context = front().context
    before = await _find(batch_id)
    batch = await context.store.write(batches.cancel, caller().account.id, batch_id, API, context.policy)
    if batch is None:
        raise _not_found()
    if batch.status != before.status:
        log.info("batch cancelled", batch=batch.id, account=batch.account_id, status=batch.status)
    return _answer(_shown(batch))


async def delete_batch(batch_id: str) -> Response:
    """Delete a batch that has ended, with its results."""
    context = front().context
    _require_ended(await _find(batch_id), "deleted")
    if not await context.store.write(batches.delete, caller().account.id, batch_id, API, context.policy):
        raise _not_found()
    log.info("batch deleted", batch=batch_id, account=caller().account.id)
    return _answer({"id": batch_id, "type": "message_batch_deleted"})


async def show_results(batch_id: str) -> Response:
    """Return the results of a batch that has ended, a line for each request, in submission order, while they are read."""
    batch = await _find(batch_id)
    _require_ended(batch, "read")
    whole = results.Range.of(batch)
    pieces = read_pieces(front().context.store, batch, whole.first, whole.last, result_lines)
    return Response(Ahead(pieces), content_type="application/x-jsonl")


async def _find(batch_id: str) -> Batch:
    """Return the caller's batch of this id. ApiError 404 where there is none."""
    batch = None
    if is_id(batch_id, PREFIX):
        batch = await front().context.store.read(batches.get, caller().account.id, batch_id, API)
    if batch is None:
        raise _not_found()
    return batch


def _not_found() -> ApiError:
    return ApiError(404, "There is no Message Batch with this ID", code="batch_not_found")


def _require_ended(batch: Batch, what: str) -> None:
    if not batch.is_final:
        raise ApiError(400, f"The batch has not ended; it can be {what} once it has")


def _shown(batch: Batch) -> dict[str, Any]:
    """Return a batch as the client sees it, its results at the address and under the prefix that the client uses."""
    prefix = ANTHROPIC if request.path.startswith(f"{ANTHROPIC}/") else ""
    return batch_object(batch, f"{base_url()}{prefix}{PATH}/batches/{batch.id}/results")


def _answer(value: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(value), content_type="application/json")
