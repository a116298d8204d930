"""Completion webhooks: an account's own HTTPS endpoint is called when one of its batches ends (Standard Webhooks 1.0).

routes       `/v1/batch_webhook`
registry     scripts on webhooks; `outbox`: scripts on events, written in the transaction that ends a batch
sender       delivers: `delivery` is one attempt, `schedule` says when the next one is due, `signing` signs each
target       a URL, taken apart; `addresses`: where webhooks may go; `resolving`: names to addresses
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from quart import Blueprint

from fibatchd.plugin_api import Batch, Context, Migration, Script, Service, from_package, hookimpl, read_fragment

from . import outbox, routes
from .housekeeping import Housekeeping
from .sender import Sender
from .settings import SCHEMA, TABLE


@hookimpl
def fibatchd_settings() -> Mapping[str, Mapping[str, Any]]:
    """Return the schema of [webhooks]."""
    return {TABLE: SCHEMA}


@hookimpl
def fibatchd_migrations() -> Iterable[Migration]:
    """Return the tables of webhooks and their events."""
    return from_package("webhooks", f"{__name__}.migrations")


@hookimpl
def fibatchd_batch_ended(context: Context) -> Callable[[Batch], Script[None]]:
    """Return what writes the event of a batch's end."""
    return lambda batch: outbox.batch_ended(batch, context.event_type(batch))


@hookimpl
def fibatchd_routes() -> Iterable[Blueprint]:
    """Return `/v1/batch_webhook`."""
    return [routes.blueprint()]


@hookimpl
def fibatchd_openapi() -> Mapping[str, Any]:
    """Return the description of its routes."""
    return read_fragment(__name__)


@hookimpl
def fibatchd_services(context: Context) -> Iterable[Service]:
    """Return what delivers events, and what removes old ones."""
    return [Sender(context), Housekeeping(context)]
