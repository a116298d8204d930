"""One request and its answer: what is held open until the answer is out, how an answer that breaks ends, and the
request's line in the log.
"""

import time
from contextlib import AsyncExitStack

import structlog
import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable
from quart import Request, request
from quart_trio.asgi import TrioASGIHTTPConnection

from fibatchd.errors import FibatchdError
from fibatchd.web.front import Front

log = structlog.get_logger(__name__)

CLIENT_LEFT = 499
"""The status that the log shows where nobody was there to be answered."""


def held() -> AsyncExitStack:
    """Return what is closed when the current request's answer is out, or its client has left, in the task that answers.

    A view whose answer is streamed enters there what the stream needs.
    """
    stack: AsyncExitStack = request.scope["state"]["held"]
    return stack


class Exchange(TrioASGIHTTPConnection):
    """Runs one request."""

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer the request, and listen to its client meanwhile."""
        request = self._create_request_from_scope(send)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.handle_messages, nursery, request, receive)
            # Here rather than in a task of its own, which would begin a turn of the event loop later.
            await self.handle_request(nursery, request, send)

    async def handle_request(  # type: ignore[override]  # quart-trio's own has this signature
        self, nursery: trio.Nursery, request: Request, send: ASGISendCallable
    ) -> None:
        """Have the app answer, send that, and end the task that listens to the client."""
        began = time.monotonic()
        status, complete = CLIENT_LEFT, False
        try:
            async with AsyncExitStack() as stack:
                request.scope["state"]["held"] = stack
                response = await self.app.handle_request(request)
                status = response.status_code
                try:
                    await self._send_response(send, response)
                    complete = True
                except FibatchdError as error:
                    # Headers are out: all that can still be told is that the answer is not whole, by cutting it.
                    log.warning("answer cut short", reason=str(error), path=request.path)
        finally:
            self._note(request, status, time.monotonic() - began, complete=complete)
        nursery.cancel_scope.cancel()

    def _note(self, request: Request, status: int, seconds: float, *, complete: bool) -> None:
        """Count the request, and write its line."""
        route = request.url_rule.rule if request.url_rule is not None else None
        front: Front = self.app.extensions["fibatchd"]
        front.traffic.count(request.method, route, status, seconds)
        state = request.scope["state"]
        (log.debug if state.get("quiet", False) else log.info)(
            "request",
            method=request.method,
            path=route or request.path[:200],
            status=status,
            complete=complete,
            ms=round(seconds * 1000, 1),
            client=request.remote_addr,
            account=state.get("account"),
        )
