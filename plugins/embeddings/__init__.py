"""`/v1/embeddings`, in batches and directly."""

from collections.abc import Iterable, Mapping
from typing import Any

from quart import Blueprint

from fibatchd.plugin_api import Endpoint, hookimpl, read_fragment

from .endpoint import Embeddings
from .routes import routes


@hookimpl
def fibatchd_endpoints() -> Iterable[Endpoint]:
    """Bring the endpoint."""
    return [Embeddings()]


@hookimpl
def fibatchd_routes() -> Iterable[Blueprint]:
    """Bring its interactive route, which the extension's switch does not close."""
    return [routes]


@hookimpl
def fibatchd_openapi() -> Mapping[str, Any]:
    """Return the description of its routes."""
    return read_fragment(__name__)
