"""`/openapi.json`: the document, for whoever asks, without a key: whoever generates a client or fills an API explorer has
none yet, and nothing in it is secret.

It is made when it is first asked for, in the worker thread, and is the same until the daemon ends."""

import hashlib
import json
from functools import cache

from quart import Blueprint, Response, request

from fibatchd.plugin_loader import Plugins
from fibatchd.web.auth import public
from fibatchd.worker import in_worker

from .document import document


def blueprint(plugins: Plugins) -> Blueprint:
    """Return the route, for the core's and these plugins' API."""
    routes = Blueprint("openapi", __name__)

    @cache
    def made() -> tuple[bytes, str]:
        body = json.dumps(document(plugins), separators=(",", ":")).encode()
        return body, hashlib.sha256(body).hexdigest()

    @routes.get("/openapi.json")
    @public
    async def show_document() -> Response:
        body, digest = await in_worker(made)
        answer = Response(body, content_type="application/json", headers={"Cache-Control": "no-cache"})
        answer.set_etag(digest)
        await answer.make_conditional(request)
        return answer

    return routes
