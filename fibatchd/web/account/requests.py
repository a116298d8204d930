"""A batch's requests as a table, and one of them with its body and its answer."""

import re
from typing import Any

import msgspec
from quart import Response, request

from fibatchd import rawjson
from fibatchd.context import Context
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Usage
from fibatchd.errors import ApiError, InvalidJson
from fibatchd.ids import batch_request_id
from fibatchd.inference.cost import believable, cost_of
from fibatchd.store import requests
from fibatchd.store.requests import OUTCOMES, Entry
from fibatchd.web import paging
from fibatchd.web.account.batches import find_batch
from fibatchd.web.account.render import outcome
from fibatchd.web.conditional import json_answer
from fibatchd.web.fields import query_words
from fibatchd.web.front import front
from fibatchd.web.render import encode, list_object, usd
from fibatchd.worker import in_worker

READ_BYTES = 32 * 1024
"""Answers up to this size are read for their tokens; a page of larger ones would be read in vain."""

_BY_NAME = {outcome(status): status for status in OUTCOMES}
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


async def list_requests(batch_id: str) -> Response:
    """Return a page of a batch's requests, in submission order."""
    limit = paging.limit(100, 1000)
    after = _after()
    named = query_words("outcome", _BY_NAME.keys())
    outcomes = None if named is None else [_BY_NAME[name] for name in named]
    batch = await find_batch(batch_id)
    context = front().context
    entries, has_more = await context.store.read(
        requests.page, batch, outcomes, after=after, limit=limit, max_answer=READ_BYTES
    )
    page = await in_worker(_page, context, batch, entries, has_more)
    return json_answer(page)


async def show_request(batch_id: str, index: str) -> Response:
    """Return one request with its body and its answer. ApiError 404 where there is none."""
    batch = await find_batch(batch_id)
    context = front().context
    found = None
    if _INDEX.fullmatch(index):
        longest = context.config.batches.max_result_bytes
        found = await context.store.read(requests.one_of, batch, int(index), longest)
    if found is None:
        raise ApiError(404, "The batch has no request of this index", code="not_found")
    return json_answer(await in_worker(_full, context, batch, *found))


def _page(context: Context, batch: Batch, entries: list[Entry], has_more: bool) -> bytes:
    items = [encode(_row(context, batch, entry)) for entry in entries]
    return list_object(items, [str(entry.index) for entry in entries], has_more=has_more)


def _full(context: Context, batch: Batch, entry: Entry, body: bytes) -> bytes:
    answer = entry.result.body
    row = _row(context, batch, entry)
    return encode(row | {"body": _json(body), "answer": None if answer is None else msgspec.Raw(answer)})


def _row(context: Context, batch: Batch, entry: Entry) -> dict[str, Any]:
    result, failure = entry.result, entry.result.failure
    usage = _usage(context, batch, result.body)
    cost = _cost(context, entry.model, usage)
    took = None
    if entry.started_at is not None and entry.ended_at is not None:
        took = max(0.0, round(entry.ended_at - entry.started_at, 3))
    return {
        "index": entry.index,
        "id": batch_request_id(result.number),
        "custom_id": result.custom_id,
        "model": entry.model or None,
        "outcome": outcome(result.status),
        "code": failure.code if failure else None,
        "message": failure.message if failure else None,
        "status_code": result.status_code if failure is None else failure.status,
        "attempts": entry.attempts,
        "request_id": result.request_id,
        "started_at": entry.started_at,
        "ended_at": entry.ended_at,
        "duration_s": took,
        "tokens": None if usage is None else _tokens(usage),
        "cost_usd": None if cost is None else usd(cost),
    }


def _usage(context: Context, batch: Batch, answer: bytes | None) -> Usage | None:
    endpoint = context.endpoints.get(batch.endpoint)
    return None if answer is None or endpoint is None else believable(endpoint.usage_of(answer))


def _cost(context: Context, model_id: str, usage: Usage | None) -> int | None:
    model = context.config.find_model(model_id)
    return None if model is None or usage is None else cost_of(model.price, usage)


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "total": usage.input_tokens + usage.output_tokens,
    }


def _json(body: bytes) -> msgspec.Raw | str:
    """Return a body as it was sent. One that was refused may not be JSON by itself; it is shown as text."""
    try:
        rawjson.check_value(body)
    except InvalidJson:
        return body.decode(errors="replace")
    return msgspec.Raw(body)


def _after() -> int:
    text = request.args.get("after")
    if text is None:
        return -1
    if not _INDEX.fullmatch(text):
        raise ApiError(400, "after: expected the index of a request", code="invalid_value", param="after")
    return int(text)
