"""`/openapi.json`: the document, for whoever asks, without a key: whoever generates a client or fills an API explorer has
none yet, and nothing in it is secret.

It is made when it is first asked for, in the worker thread, and is the same until the daemon ends.
"""

from functools import cache

from quart import Blueprint, Response

from fibatchd.plugin_loader import Plugins
from fibatchd.web.auth import public
from fibatchd.web.conditional import json_answer
from fibatchd.web.render import encode
from fibatchd.worker import in_worker

from .document import document


def blueprint(plugins: Plugins) -> Blueprint:
    """Return the route, for the core's and these plugins' API."""
    routes = Blueprint("openapi", __name__)

    @cache
    def made() -> bytes:
        return encode(document(plugins))

    @routes.get("/openapi.json")
    @public
    async def show_document() -> Response:
        return json_answer(await in_worker(made))

    return routes
