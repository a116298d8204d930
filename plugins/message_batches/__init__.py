"""Anthropic Message Batches, and `/v1/messages` as it is called directly.

endpoint     `/v1/messages`: native where the upstream speaks it, else translated (`to_chat`, `turns`, `tools`, `from_chat`,
             `streams`)
checks       what is refused on every route, by the rules of the API's `versions`
routes       both prefixes; `creation` checks a batch, `rendering` and `errors` write answers; `description` tells of them
"""

from collections.abc import Iterable, Mapping
from typing import Any

from quart import Blueprint

from fibatchd.plugin_api import Context, Endpoint, ErrorShape, Rerun, hookimpl

from . import description
from .creation import API, MessageReruns
from .endpoint import PATH, Messages
from .errors import error_shape
from .routes import ANTHROPIC, blueprints


@hookimpl
def fibatchd_endpoints() -> Iterable[Endpoint]:
    """Return the Messages API."""
    return [Messages()]


@hookimpl
def fibatchd_reruns(context: Context) -> Iterable[Rerun]:
    """Return how a Message Batch is run again."""
    return [MessageReruns(context)]


@hookimpl
def fibatchd_event_names() -> Mapping[str, str]:
    """Return what the end of a Message Batch is called: the same, however it ended."""
    return {API: "message_batch.ended"}


@hookimpl
def fibatchd_error_shapes() -> Mapping[str, ErrorShape]:
    """Return Anthropic's error form, for all paths of its API."""
    return {PATH: error_shape, ANTHROPIC: error_shape}


@hookimpl
def fibatchd_routes() -> Iterable[Blueprint]:
    """Return the routes."""
    return blueprints()


@hookimpl
def fibatchd_openapi() -> Mapping[str, Any]:
    """Return the description of its routes."""
    return description.fragment()
