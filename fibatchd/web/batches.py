"""`/v1/batches`: create, get, list, cancel, delete. Only creating asks for access and quota; managing never does."""

from collections.abc import Mapping, Sequence

import msgspec
import structlog
from quart import Blueprint, Response, request

from fibatchd import rawjson
from fibatchd.context import BatchInput, CreateCall
from fibatchd.domain.batches import Batch
from fibatchd.errors import ApiError, InvalidJson, UnknownMember
from fibatchd.ids import is_id
from fibatchd.inference.items import unknown_field
from fibatchd.inference.members import is_null
from fibatchd.store import batches as scripts
from fibatchd.web import idempotency, paging
from fibatchd.web.access import require_batches, require_for_creation
from fibatchd.web.auth import caller
from fibatchd.web.fields import refused
from fibatchd.web.front import front
from fibatchd.web.metadata import read_metadata
from fibatchd.web.render import batch_object, encode, list_object
from fibatchd.worker import in_worker

API = "batches"
ROUTE = "POST /v1/batches"
REQUESTS = "requests"
"""The member that may fill a body; its elements are checked one by one, by its form."""

log = structlog.get_logger(__name__)


def blueprint(forms: Sequence[BatchInput]) -> Blueprint:
    """Return the routes. `forms` are the ways in which a create call may name its requests."""
    routes = Blueprint("batches", __name__)
    routes.before_request(require_batches)
    routes.get("/v1/batches")(list_batches)
    routes.get("/v1/batches/<batch_id>")(show_batch)
    routes.post("/v1/batches/<batch_id>/cancel")(cancel_batch)
    routes.delete("/v1/batches/<batch_id>")(delete_batch)
    known = frozenset().union(*(form.allowed for form in forms))

    @routes.post("/v1/batches")
    async def create_batch() -> Response:
        who = caller()
        sent_key = idempotency.sent_key()
        async with front().create_body(request) as body:
            key = await idempotency.bind(sent_key, ROUTE, body)
            batch = await idempotency.earlier_batch(who, key)
            if batch is None:
                await require_for_creation(who)
                members, metadata = await in_worker(read_members, body, known)
                form = form_of(members, forms)
                batch = await form.create(CreateCall(who, members, metadata, key))
                log.info(
                    "batch created", batch=batch.id, account=who.account.id, form=form.member, requests=batch.total
                )
        return answer(batch)

    return routes


def read_members(body: bytes, known: frozenset[str]) -> tuple[dict[str, msgspec.Raw], str | None]:
    """Return the top-level members of a create call's body, without those that are null, and its metadata.

    Raises InvalidJson, and ApiError 400 for a member that is not `known` or metadata that is none.
    """
    try:
        found = rawjson.read_known(body, known)
    except UnknownMember as unknown:
        raise refused(unknown_field(unknown.name)) from None
    members = {name: raw for name, raw in found.items() if not is_null(raw)}
    for name, raw in members.items():
        if name != REQUESTS:
            _check(name, raw)
    return members, read_metadata(members.get("metadata"))


def form_of(members: Mapping[str, msgspec.Raw], forms: Sequence[BatchInput]) -> BatchInput:
    """Return the form that the members call for. ApiError 400 for none, for several, and for a member it does not know."""
    called_for = [form for form in forms if form.member in members]
    names = " or ".join(form.member for form in forms)
    if not called_for:
        message = f"{names}: missing, a batch needs its requests"
        raise ApiError(400, message, code="missing_required_parameter", param=forms[0].member)
    if len(called_for) > 1:
        both = " and ".join(form.member for form in called_for)
        raise ApiError(400, f"{both} cannot be used together", code="invalid_value", param=called_for[1].member)
    form = called_for[0]
    unknown = next((name for name in members if name not in form.allowed), None)
    if unknown is not None:
        raise refused(unknown_field(unknown))
    return form


def _check(name: str, raw: msgspec.Raw) -> None:
    try:
        rawjson.check_value(raw)
    except InvalidJson as error:
        raise InvalidJson(f"{name}: {error}") from None


async def list_batches() -> Response:
    """Return a page of the account's batches, newest first."""
    limit = paging.limit(20, 100)
    after = paging.id_cursor("after", "batch_")
    found, has_more = await front().context.store.read(scripts.page, caller().account.id, API, after=after, limit=limit)
    items = [batch_object(batch) for batch in found]
    page = list_object(items, [batch.id for batch in found], has_more=has_more)
    return Response(page, content_type="application/json")


async def show_batch(batch_id: str) -> Response:
    """Return one batch."""
    return answer(await find_batch(batch_id))


async def cancel_batch(batch_id: str) -> Response:
    """Cancel a batch, and return it as it is then."""
    context = front().context
    before = await find_batch(batch_id)
    batch = await context.store.write(scripts.cancel, caller().account.id, batch_id, API, context.policy)
    if batch is None:
        raise not_found()
    if batch.status != before.status:
        log.info("batch cancelled", batch=batch.id, account=batch.account_id, status=batch.status)
    return answer(batch)


async def delete_batch(batch_id: str) -> Response:
    """Delete a batch with all that belongs to it."""
    context = front().context
    await find_batch(batch_id)
    deleted = await context.store.write(scripts.delete, caller().account.id, batch_id, API, context.policy)
    if deleted is None:
        raise not_found()
    if not deleted:
        message = "One of the batch's requests is still running; cancel the batch and wait for it to end"
        raise ApiError(409, message, code="batch_running", retry=False)
    log.info("batch deleted", batch=batch_id, account=caller().account.id)
    body = encode({"id": batch_id, "object": "batch.deleted", "deleted": True})
    return Response(body, content_type="application/json")


async def find_batch(batch_id: str) -> Batch:
    """Return the caller's batch of this id. ApiError 404 where there is none."""
    batch = None
    if is_id(batch_id, "batch_"):
        batch = await front().context.store.read(scripts.get, caller().account.id, batch_id, API)
    if batch is None:
        raise not_found()
    return batch


def not_found() -> ApiError:
    """Return the answer for a batch that is not there for the caller: unknown, deleted, or another account's."""
    return ApiError(404, "There is no batch with this ID", code="batch_not_found")


def answer(batch: Batch) -> Response:
    """Answer with a batch."""
    return Response(batch_object(batch), content_type="application/json")
