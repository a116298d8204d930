"""One request of a batch, run once: a pipeline from what was claimed to what is recorded."""

import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
import structlog
import trio

from fibatchd.config import Batches
from fibatchd.context import Context
from fibatchd.domain.requests import Claimed, Failure, Outcome
from fibatchd.ids import request_id
from fibatchd.inference.execute import Attempt
from fibatchd.scheduler import retry

log = structlog.get_logger()

STOPPED = Failure("upstream_error", "The server stopped before the answer was complete", 502)
BROKEN_BY_US = Failure("upstream_error", "The request could not be run", 500)
MODEL_GONE = Failure("model_not_found", "The model is gone, or the key may no longer use it", 404)

UNSENT_AGAIN_S = 1.0
"""What no upstream would take waits so long: those that are there for others of the model may be unfit for this one."""


async def run_attempt(claimed: Claimed, context: Context) -> Outcome:
    """Run a claimed request once and return its outcome. Raises nothing but trio.Cancelled."""
    name = request_id()
    settings = context.config.batches
    model = context.config.find_model(claimed.model)
    endpoint = context.endpoints.get(claimed.endpoint)
    if model is None or endpoint is None:
        return Outcome(claimed, name, failure=MODEL_GONE)
    try:
        attempt = await context.executor.attempt(
            endpoint,
            model,
            claimed.body,
            options_of(claimed.options),
            max_body=settings.max_result_bytes,
            patient=True,
        )
    except Exception:
        # A fault of ours (or a plugin's) on this one request: it is retried like an upstream's, and others go on.
        log.exception("attempt broke", batch=claimed.batch_id, request=claimed.number, request_id=name)
        attempt = Attempt(failure=BROKEN_BY_US, retry=True, cost=None)
    return outcome_of(claimed, name, attempt, settings)


def outcome_of(claimed: Claimed, name: str, attempt: Attempt, settings: Batches) -> Outcome:
    """Decide what an attempt's end means for its request: done, failed, tried again, or given back unsent."""
    if not attempt.sent:
        return Outcome(claimed, name, sent=False, retry_in=UNSENT_AGAIN_S)
    if attempt.answer is not None:
        return Outcome(claimed, name, answer=attempt.answer, usage=attempt.usage, cost=attempt.cost)
    wait = None
    if attempt.retry and not retry.is_last(claimed.attempt, settings):
        wait = retry.delay(claimed.attempt, attempt.retry_after, settings, random.random)
    return Outcome(claimed, name, failure=attempt.failure, retry_in=wait, usage=attempt.usage, cost=attempt.cost)


def cut_short(claimed: Claimed, settings: Batches) -> Outcome:
    """Return the outcome of an attempt that we stopped: it may have been sent, so it counts and its cost is unknown."""
    wait = None if retry.is_last(claimed.attempt, settings) else 0.0
    return Outcome(claimed, request_id(), failure=STOPPED, retry_in=wait, cost=None)


def given_back(claimed: Claimed) -> Outcome:
    """Return the outcome of a request that was claimed and never started."""
    return Outcome(claimed, "", sent=False)


@lru_cache(maxsize=256)
def options_of(text: str | None) -> Mapping[str, Any]:
    """Return a batch's options; many requests share them."""
    return msgspec.json.decode(text, type=dict[str, Any]) if text else {}


async def until(event: trio.Event, deadline: float) -> None:
    """Wait for an event, until `deadline` (trio's clock) at most."""
    with trio.move_on_at(deadline):
        await event.wait()
