"""`/healthz`: the process lives; `/readyz`: it takes work. For load balancers and service managers, without a key."""

import trio
from quart import Blueprint, Response, request

from fibatchd.errors import StoreUnavailable
from fibatchd.store.standing import answer
from fibatchd.web.auth import public
from fibatchd.web.front import front

STORE_S = 2.0
"""A probe waits no longer for the database."""

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
    """200 when new work is taken, 503 at start, while draining, and while the database does not answer."""
    if front().ready() and await _store_answers():
        return Response(b'{"status":"ready"}', content_type="application/json")
    return Response(b'{"status":"not ready"}', 503, content_type="application/json")


async def _store_answers() -> bool:
    with trio.move_on_after(STORE_S):
        try:
            await front().context.store.read(answer)
        except StoreUnavailable:
            return False
        return True
    return False
