"""Models as operators see them: their queues over all daemons, and what this one knows of their upstreams; draining."""

import math
from collections.abc import Mapping
from typing import Any

import trio
from quart import Response

from fibatchd.config import Model
from fibatchd.context import Context
from fibatchd.errors import ApiError
from fibatchd.inference.catalogue import NOT_FOUND
from fibatchd.store import drains, operations
from fibatchd.store.operations import Operations, Worker
from fibatchd.store.spending import Spent
from fibatchd.upstream.fleet import Member
from fibatchd.web.account.render import sums
from fibatchd.web.admin.changes import note
from fibatchd.web.conditional import json_answer
from fibatchd.web.front import front
from fibatchd.web.render import encode, list_object, seconds
from fibatchd.web.throughput import Rates


async def list_models() -> Response:
    """Return all models of the configuration, and which daemon answers."""
    context = front().context
    now = await context.store.read(operations.operations)
    this = now.worker(context.daemon())
    daemon = {"id": context.daemon(), "name": this.name if this else None}
    models, rates = context.config.models, front().throughput.rates()
    return json_answer(
        {
            "object": "list",
            "data": [_model_object(model, now, rates) for model in models],
            "has_more": False,
            "first_id": models[0].id if models else None,
            "last_id": models[-1].id if models else None,
            "daemon": daemon,
        }
    )


async def show_model(model_id: str) -> Response:
    """Return one model."""
    model = _find(model_id)
    now = await front().context.store.read(operations.operations)
    return json_answer(_model_object(model, now, front().throughput.rates()))


async def drain_model(model_id: str) -> Response:
    """Take a model out of service on all daemons."""
    model = _find(model_id)
    await front().context.store.write(drains.drain, model.id)
    note("model.drain", model=model.id)
    return await show_model(model.id)


async def undrain_model(model_id: str) -> Response:
    """Put a model back. ApiError 409 for one that the configuration drains."""
    model = _find(model_id)
    if model.drain:
        message = "The configuration drains this model; it is put back into service there"
        raise ApiError(409, message, code="drained_by_configuration", retry=False)
    await front().context.store.write(drains.undrain, model.id)
    note("model.undrain", model=model.id)
    return await show_model(model.id)


async def list_daemons() -> Response:
    """Return the daemons on this database."""
    context = front().context
    workers = await context.store.read(operations.workers)
    items = [encode(_daemon_object(worker, context.daemon())) for worker in workers]
    return json_answer(list_object(items, [str(worker.id) for worker in workers], has_more=False))


def _find(model_id: str) -> Model:
    model = front().context.config.find_model(model_id)
    if model is None or model.id != model_id:
        raise ApiError(404, "There is no model with this ID", code=NOT_FOUND, param="model")
    return model


def _daemon_object(worker: Worker, this: int) -> dict[str, Any]:
    return {
        "object": "admin.daemon",
        "id": worker.id,
        "name": worker.name,
        "is_this": worker.id == this,
        "is_alive": worker.is_alive,
        "started_at": seconds(worker.started_at),
        "models": worker.models,
        "batch_running": worker.batch,
        "interactive_running": worker.interactive,
    }


def _model_object(model: Model, now: Operations, rates: Rates) -> dict[str, Any]:
    context = front().context
    age = now.standing.oldest.get(model.id)
    return {
        "object": "admin.model",
        "id": model.id,
        "aliases": model.aliases,
        "endpoints": model.endpoints,
        "tiers": model.tiers,
        "concurrency": model.concurrency,
        "capacity": model.capacity,
        "reserve": model.reserve,
        "drained": _drained(model, now.drained),
        "batch": {
            "queued": now.standing.queued.get(model.id, 0),
            "running": sum(worker.batch.get(model.id, 0) for worker in now.workers),
            "oldest_queued_at": None if age is None else int(now.now - age),
        },
        "interactive": {"running": _interactive(model, now, context)},
        "today": sums(now.today.get(model.id, Spent())),
        "here": _here(model, now, rates, context),
    }


def _drained(model: Model, by_hand: Mapping[str, float]) -> dict[str, Any] | None:
    if model.drain:
        return {"by": "configuration", "since": None}
    return {"by": "operator", "since": int(by_hand[model.id])} if model.id in by_hand else None


def _interactive(model: Model, now: Operations, context: Context) -> int:
    """Return the interactive requests on a model: this daemon's as they are, others' as they last told."""
    others = (w.interactive.get(model.id, 0) for w in now.workers if w.is_alive and w.id != context.daemon())
    return context.load.own().get(model.id, 0) + sum(others)


def _here(model: Model, now: Operations, rates: Rates, context: Context) -> dict[str, Any]:
    this = now.worker(context.daemon())
    rate = rates.of(model.id)
    return {
        "batch_running": this.batch.get(model.id, 0) if this else 0,
        "interactive_running": context.load.own().get(model.id, 0),
        "per_minute": {
            "basis_s": rate.basis_s,
            "attempts": rate.attempts,
            "failed": rate.failed,
            "input_tokens": rate.input_tokens,
            "output_tokens": rate.output_tokens,
        },
        "upstreams": [_upstream_object(member) for member in context.executor.fleet.of(model.id)],
    }


def _upstream_object(member: Member) -> dict[str, Any]:
    upstream, replica, now = member.upstream, member.replica, trio.current_time()
    state = replica.state(now)
    retry_in = replica.ready_at() - now if state in ("down", "paused") else math.inf
    return {
        "url": upstream.url,
        "protocol": upstream.protocol,
        "model": upstream.model,
        "weight": upstream.weight,
        "state": state,
        "retry_in_s": round(max(0.0, retry_in), 1) if math.isfinite(retry_in) else None,
        "in_flight": replica.in_flight,
        "max_connections": upstream.max_connections,
        "requests_per_minute": upstream.requests_per_minute,
        "tokens_per_minute": upstream.tokens_per_minute,
    }
