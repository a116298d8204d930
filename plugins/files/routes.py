"""`/v1/files`: upload, list, get, download, delete. Only uploading asks for batch access; none asks for quota."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import msgspec
import structlog
from quart import Blueprint, Response, request

from fibatchd.plugin_api import (
    ApiError,
    FixedBytes,
    Store,
    caller,
    fixed_answer,
    front,
    is_id,
    list_object,
    paging,
    require_batches,
)

from . import scripts, upload
from .scripts import File

MOST_LISTED = 10_000

log = structlog.get_logger(__name__)

blueprint = Blueprint("files", __name__)
blueprint.before_request(require_batches)


@blueprint.post("/v1/files")
async def upload_file() -> Response:
    """Upload an input file."""
    file = await upload.receive()
    log.info("file uploaded", file=file.id, account=file.account_id, bytes=file.bytes)
    return answer(file)


@blueprint.get("/v1/files")
async def list_files() -> Response:
    """Return a page of the account's files, newest first unless `order=asc`."""
    limit = paging.limit(MOST_LISTED, MOST_LISTED)
    after = paging.id_cursor("after", "file-")
    order = request.args.get("order", "desc")
    if order not in ("asc", "desc"):
        raise ApiError(400, "order: expected asc or desc", code="invalid_value", param="order")
    purpose = request.args.get("purpose")
    if purpose is not None and purpose not in (scripts.INPUT, scripts.OUTPUT):
        # Other purposes are OpenAI's: a client may ask, and there are no such files here.
        return Response(list_object([], [], has_more=False), content_type="application/json")
    found, has_more = await front().context.store.read(
        scripts.page, caller().account.id, purpose=purpose, after=after, limit=limit, newest_first=order == "desc"
    )
    page = list_object([file_object(file) for file in found], [file.id for file in found], has_more=has_more)
    return Response(page, content_type="application/json")


@blueprint.get("/v1/files/<file_id>")
async def show_file(file_id: str) -> Response:
    """Return one file object."""
    return answer(await find_file(file_id))


@blueprint.get("/v1/files/<file_id>/content")
async def download(file_id: str) -> Response:
    """Return a file's bytes."""
    file = await find_file(file_id)
    kind = "application/jsonl" if file.purpose == scripts.OUTPUT else "application/octet-stream"
    content = FixedBytes(file.sha256, file.bytes, kind, file.filename)
    return fixed_answer(content, partial(read, front().context.store, file), request.method, request.headers)


@blueprint.delete("/v1/files/<file_id>")
async def delete_file(file_id: str) -> Response:
    """Delete a file for good."""
    deleted = is_id(file_id, "file-") and await front().context.store.write(
        scripts.delete, caller().account.id, file_id
    )
    if not deleted:
        raise not_found()
    log.info("file deleted", file=file_id, account=caller().account.id)
    body = msgspec.json.encode({"id": file_id, "object": "file", "deleted": True})
    return Response(body, content_type="application/json")


async def find_file(file_id: str) -> File:
    """Return the caller's file of this id. ApiError 404 where there is none."""
    file = None
    if is_id(file_id, "file-"):
        file = await front().context.store.read(scripts.get, caller().account.id, file_id)
    if file is None:
        raise not_found()
    return file


async def read(store: Store, file: File, first: int, last: int) -> AsyncGenerator[bytes, None]:
    """Give a file's bytes from position `first` to `last`, both included. Raises ApiError 404 where it was deleted
    meanwhile."""
    while first <= last:
        found = await store.read(scripts.chunk_at, file.id, first)
        if found is None or found[0] + len(found[1]) <= first:
            raise not_found()
        start, data = found
        yield data[first - start : last + 1 - start]
        first = start + len(data)


def not_found() -> ApiError:
    """Return the answer for a file that is not there for the caller: unknown, deleted, expired, or another account's."""
    return ApiError(404, "There is no file with this ID", code="file_not_found")


def answer(file: File) -> Response:
    """Answer with a file object."""
    return Response(file_object(file), content_type="application/json")


def file_object(file: File) -> bytes:
    """Return a file's JSON. It is `processed` from the first: clients that wait for that need not."""
    fields: dict[str, Any] = {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_at),
        "expires_at": int(file.expires_at),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }
    return msgspec.json.encode(fields)
