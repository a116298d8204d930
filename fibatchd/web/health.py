"""`/healthz`: the process lives; `/readyz`: it takes work. For load balancers and service managers, without a key."""

from quart import Blueprint, Response, request

from fibatchd.web.auth import public
from fibatchd.web.front import front

blueprint = Blueprint("health", __name__)


@blueprint.before_request
async def keep_quiet() -> None:
    """Probes come every few seconds: their log lines are for debugging only."""
    request.scope["state"]["quiet"] = True


@blueprint.get("/healthz")
@public
async def alive() -> Response:
    """200 for as long as the event loop turns."""
    return Response(b'{"status":"ok"}', content_type="application/json")


@blueprint.get("/readyz")
@public
async def ready() -> Response:
    """200 when new work is taken, 503 at start and while draining."""
    if front().ready():
        return Response(b'{"status":"ready"}', content_type="application/json")
    return Response(b'{"status":"not ready"}', 503, content_type="application/json")
