"""How a batch has been getting on: what ended when and how long it took, and when the rest may be over."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import trio
from quart import Response

from fibatchd.domain.batches import Batch
from fibatchd.store import overview, progress
from fibatchd.store.interface import Script
from fibatchd.store.progress import Slice
from fibatchd.web import paging
from fibatchd.web.account.batches import Listed, is_batch_id, with_lanes
from fibatchd.web.account.waiting import Surroundings, wait_of
from fibatchd.web.auth import caller
from fibatchd.web.batches import not_found
from fibatchd.web.conditional import json_answer
from fibatchd.web.front import front

DAY_S = 86_400
ROUND_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, DAY_S)
MOST_BUCKETS = 200

BASIS_S = 300.0
LEAST_BASIS_S = 10.0
LEAST_ENDED = 3
"""Fewer say nothing about when the others will have ended."""

# To look through a million requests takes seconds. Whoever asks for that often must not hold all of the store's readers,
# which every call needs to tell whose key it is.
_looking = trio.CapacityLimiter(2)


@dataclass(frozen=True, slots=True)
class Course:
    """A batch, its time in `count` slices of `width_s` seconds, and how many requests have ended in the last BASIS_S."""

    listed: Listed
    width_s: int
    count: int
    slices: Sequence[Slice]
    lately: int

    @property
    def batch(self) -> Batch:
        """Return the batch."""
        return self.listed.batches[0]


async def show_progress(batch_id: str) -> Response:
    """Return throughput, latency and forecast of one batch."""
    most = paging.whole_number("buckets", 60, MOST_BUCKETS)
    course = None
    if is_batch_id(batch_id):
        async with _looking:
            course = await front().context.store.read(_course, caller().account.id, batch_id, most)
    if course is None:
        raise not_found()
    batch, now = course.batch, course.listed.now
    lanes = course.listed.lanes.get(batch.id, ())
    waits = wait_of(batch, lanes, Surroundings(front().context, now, trio.current_time())) is not None
    began = batch.in_progress_at
    return json_answer(
        {
            "object": "account.batch.progress",
            "id": batch.id,
            "from": None if began is None else int(began),
            "bucket_s": course.width_s,
            "buckets": [] if began is None else buckets(course, int(began)),
            "forecast": None if waits else forecast(batch, course.lately, now),
        }
    )


def _course(account_id: str, batch_id: str, most: int) -> Script[Course | None]:
    batch = yield from overview.find(account_id, batch_id)
    if batch is None:
        return None
    listed = yield from with_lanes([batch])
    began = batch.in_progress_at
    if began is None:
        return Course(listed, ROUND_S[0], 0, [], 0)
    whole_s = max(0.0, (batch.ended_at or listed.now) - int(began))
    width = width_of(whole_s, most)
    count = math.floor(whole_s / width) + 1
    slices = yield from progress.slices(batch, int(began), width, count)
    lately = 0 if batch.is_final else (yield from progress.ended_since(batch, listed.now - BASIS_S))
    return Course(listed, width, count, slices, lately)


def width_of(whole_s: float, most: int) -> int:
    """Return the least round number of seconds of which at most so many cover the whole, both ends included."""
    for width in ROUND_S:
        if whole_s < width * most:
            return width
    return DAY_S * (math.floor(whole_s / (DAY_S * most)) + 1)


def buckets(course: Course, began: int) -> list[dict[str, Any]]:
    """Return the slices as the API shows them, those in which nothing ended included."""
    known = {part.index: part for part in course.slices}
    return [_bucket(began + index * course.width_s, known.get(index)) for index in range(course.count)]


def _bucket(at: int, part: Slice | None) -> dict[str, Any]:
    if part is None:
        return {"at": at, "succeeded": 0, "failed": 0, "p50_s": None, "p95_s": None, "max_s": None}
    return {
        "at": at,
        "succeeded": part.succeeded,
        "failed": part.ended - part.succeeded,
        "p50_s": round(part.p50, 3),
        "p95_s": round(part.p95, 3),
        "max_s": round(part.longest, 3),
    }


def forecast(batch: Batch, lately: int, now: float) -> dict[str, Any] | None:
    """Return when what is left may have ended, at the rate of late; None where that cannot be known."""
    left = batch.queued + batch.running
    if batch.is_final or batch.in_progress_at is None or not left or lately < LEAST_ENDED:
        return None
    basis = min(BASIS_S, now - batch.in_progress_at)
    if basis < LEAST_BASIS_S:
        return None
    ends_at = now + left * basis / lately
    return {
        "ends_at": round(ends_at),
        "in_time": ends_at <= batch.expires_at,
        "per_minute": round(60 * lately / basis, 2),
        "basis_s": round(basis),
    }
