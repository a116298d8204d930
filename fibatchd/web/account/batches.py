"""`/v1/account/batches`: an account's batches of all kinds in one list, and one of them in full."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import trio
from quart import Response

from fibatchd.domain import states
from fibatchd.domain.batches import Batch
from fibatchd.store import overview
from fibatchd.store.interface import Script
from fibatchd.store.overview import Filter, Waiting
from fibatchd.web import paging
from fibatchd.web.account.render import batch_detail, batch_item
from fibatchd.web.account.waiting import Surroundings, wait_of
from fibatchd.web.auth import caller
from fibatchd.web.batches import not_found
from fibatchd.web.conditional import json_answer
from fibatchd.web.fields import query_text, query_words
from fibatchd.web.front import front
from fibatchd.web.render import encode, list_object

_ID = re.compile(r"[a-z]{1,40}_[0-9a-f]{32}")


async def list_batches() -> Response:
    """Return a page of the account's batches, newest first."""
    limit = paging.limit(20, 100)
    after = paging.cursor("after", is_batch_id, "batch_6f1c0a7e2b8d4e55a1c3f9d2e4b6a8c0")
    wanted = Filter(
        statuses=query_words("status", states.UNFINISHED | states.FINAL),
        sources=query_words("kind"),
        model=query_text("model"),
        text=query_text("q"),
    )
    account_id = caller().account.id
    listed = await front().context.store.read(_listed, account_id, wanted, after=after, limit=limit)
    items = [encode(item) for item in shown(listed)]
    return json_answer(list_object(items, [batch.id for batch in listed.batches], has_more=listed.has_more))


async def show_batch(batch_id: str) -> Response:
    """Return one batch in full."""
    return json_answer(await detail(batch_id))


async def detail(batch_id: str) -> dict[str, Any]:
    """Return one of the caller's batches in full. ApiError 404 where there is none."""
    if not is_batch_id(batch_id):
        raise not_found()
    store = front().context.store
    found = await store.read(_detail, caller().account.id, batch_id)
    if found is None:
        raise not_found()
    listed, reruns = found
    batch = listed.batches[0]
    return batch_detail(shown(listed)[0], batch, await front().error_counts.of(store, batch), reruns)


async def find_batch(batch_id: str) -> Batch:
    """Return the caller's batch of this id, whatever its kind. ApiError 404 where there is none."""
    batch = None
    if is_batch_id(batch_id):
        batch = await front().context.store.read(overview.find, caller().account.id, batch_id)
    if batch is None:
        raise not_found()
    return batch


def is_batch_id(text: str) -> bool:
    """Whether a text has the form of a batch's id, of whatever kind."""
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Listed:
    """Batches, and what belongs to them: their models, the lanes that wait, and the store's time."""

    batches: Sequence[Batch]
    has_more: bool
    models: Mapping[str, Sequence[str]]
    lanes: Mapping[str, Sequence[Waiting]]
    now: float


def with_lanes(batches: Sequence[Batch], *, has_more: bool = False) -> Script[Listed]:
    """Return batches with what belongs to them."""
    models = yield from overview.models_of([batch.id for batch in batches])
    stalled = [batch.id for batch in batches if batch.queued and not batch.running and not batch.is_final]
    lanes, now = yield from overview.waiting_lanes(stalled)
    return Listed(batches, has_more, models, lanes, now)


def shown(listed: Listed) -> list[dict[str, Any]]:
    """Return the batches as the list shows them."""
    around = Surroundings(front().context, listed.now, trio.current_time())
    return [
        batch_item(batch, listed.models.get(batch.id, []), wait_of(batch, listed.lanes.get(batch.id, ()), around))
        for batch in listed.batches
    ]


def _listed(account_id: str, wanted: Filter, *, after: str | None, limit: int) -> Script[Listed]:
    batches, has_more = yield from overview.page(account_id, wanted, after=after, limit=limit)
    return (yield from with_lanes(batches, has_more=has_more))


def _detail(account_id: str, batch_id: str) -> Script[tuple[Listed, list[str]] | None]:
    batch = yield from overview.find(account_id, batch_id)
    if batch is None:
        return None
    listed = yield from with_lanes([batch])
    return listed, (yield from overview.reruns_of(batch_id))
