"""`/v1/embeddings`, in batches and directly."""

from collections.abc import Iterable

from quart import Blueprint

from fibatchd.plugin_api import Context, Endpoint, hookimpl

from .endpoint import Embeddings
from .routes import routes


@hookimpl
def fibatchd_endpoints() -> Iterable[Endpoint]:
    """Bring the endpoint."""
    return [Embeddings()]


@hookimpl
def fibatchd_routes(context: Context) -> Iterable[Blueprint]:
    """Bring its interactive route, which the extension's switch does not close."""
    return [routes]
