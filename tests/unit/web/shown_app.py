"""An app whose handlers show what they live through: `app.seen` tells when they start and end, and how much they took."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import trio
from quart import Blueprint, Response, current_app, jsonify, request
from quart_trio import QuartTrio

from fibatchd.errors import ApiError
from fibatchd.web.guards import BodyBudget, GuardedQuart, LimitedBody, read_body

MANY = 64 * 1024 * 1024
"""More bytes than the two sockets' buffers hold."""

views = Blueprint("views", __name__)


@dataclass
class Seen:
    """What the handlers of one app saw."""

    started: trio.Event = field(default_factory=trio.Event)
    go_on: trio.Event = field(default_factory=trio.Event)
    ended: trio.Event = field(default_factory=trio.Event)
    consumed: int = 0
    produced: int = 0
    scope: dict[str, Any] = field(default_factory=dict)


def make_app(quart_class: type[QuartTrio] = GuardedQuart) -> QuartTrio:
    app = quart_class("front")
    app.seen = Seen()
    app.budget = BodyBudget(100_000)
    app.register_blueprint(views)
    return app


@views.app_errorhandler(ApiError)
async def refused(error: ApiError) -> Any:
    return jsonify({"error": error.message}), error.status


@views.get("/")
async def root() -> Any:
    current_app.seen.scope.update(request.scope)
    return {"ok": True, "remote": request.remote_addr, "url": request.host_url}


@views.get("/wait")
async def wait() -> Any:
    seen = current_app.seen
    seen.started.set()
    try:
        await seen.go_on.wait()
    finally:
        seen.ended.set()
    return {"ok": True}


@views.get("/large")
async def large() -> Any:
    return b"x" * 20_000_000


@views.get("/fail")
async def fail() -> Any:
    raise RuntimeError("a secret")


@views.get("/stream")
async def stream() -> Response:
    pause_at = int(request.args.get("pause_at", MANY))
    return Response(_events(current_app.seen, pause_at), content_type="text/event-stream")


async def _events(seen: Seen, pause_at: int) -> AsyncIterator[bytes]:
    size = min(pause_at, 50_000)
    try:
        while True:
            yield b"x" * size
            seen.produced += size
            if seen.produced >= pause_at:
                seen.started.set()
                await seen.go_on.wait()
    finally:
        seen.ended.set()


@views.post("/ignore")
async def ignore() -> Any:
    return {"error": "no key"}, 401


@views.post("/read")
async def read() -> Any:
    return {"size": len(await read_body(request, int(request.args.get("limit", 1000))))}


@views.post("/whole")
async def whole() -> Any:
    return {"size": len(await request.get_data())}


@views.post("/held")
async def held() -> Any:
    seen = current_app.seen
    async with current_app.budget.body(request, 90_000) as body:
        seen.started.set()
        await seen.go_on.wait()
        return {"size": len(body)}


@views.post("/late")
async def late() -> Any:
    """Reads only when told, so that the body has to wait somewhere."""
    seen = current_app.seen
    seen.started.set()
    try:
        await seen.go_on.wait()
        async for data in LimitedBody(request, 1 << 40):
            seen.consumed += len(data)
    finally:
        seen.ended.set()
    return {"size": seen.consumed}
