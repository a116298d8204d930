"""Interactive calls: one function that runs a request now, by the same code that runs a batch's.

The core's chat route and the routes of plugins call it for their endpoints.
"""

import math
from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec
from quart import Blueprint, Response, request

from fibatchd import rawjson
from fibatchd.config import CHAT_COMPLETIONS, Model
from fibatchd.context import Caller
from fibatchd.errors import ApiError
from fibatchd.inference import catalogue
from fibatchd.inference.endpoint import Endpoint, Options, Problem
from fibatchd.inference.execute import Attempt, OpenStream
from fibatchd.inference.target import Target
from fibatchd.web.access import require_quota
from fibatchd.web.auth import caller
from fibatchd.web.exchange import held
from fibatchd.web.front import front
from fibatchd.web.work import INLINE_BYTES
from fibatchd.worker import in_worker

MAX_ANSWER_BYTES = 64 * 2**20

blueprint = Blueprint("interactive", __name__)


@blueprint.post(CHAT_COMPLETIONS)
async def chat() -> Response:
    """Run a chat completion."""
    return await interactive(CHAT_COMPLETIONS)


async def interactive(path: str, options: Options | None = None) -> Response:
    """Run the current request on the endpoint of this path, and answer with what the model answered.

    The answer streams where the body asks for it. Raises ApiError: 400 for a body that the endpoint refuses, 404 for a
    model that the caller may not use, 429 for quota and concurrency, else what the attempt ended with.
    """
    state, who, stack = front(), caller(), held()
    tier = state.context.config.tiers.get(who.account.tier)
    stack.enter_context(state.interactive_slot(who.account.id, tier.interactive_concurrency if tier else None))
    body = await stack.enter_async_context(state.call_body(request))
    call = _Call(who, state.context.endpoints[path], body, options or {})
    model, streamed = await call.checked()
    await require_quota(who)
    stack.enter_context(state.context.load.enter(model.id))
    return await (call.stream(model) if streamed else call.run(model))


class _Call:
    """One interactive request."""

    def __init__(self, who: Caller, endpoint: Endpoint, body: bytes, options: Options) -> None:
        self._context = front().context
        self._who = who
        self._endpoint = endpoint
        self._body = body
        self._options = options

    async def checked(self) -> tuple[Model, bool]:
        """Return the model that the request is for, and whether the answer is to be streamed."""
        target = Target(
            self._context.config,
            self._who.account,
            self._who.key,
            self._endpoint,
            batch=False,
            options=self._options,
        )
        if len(self._body) <= INLINE_BYTES:
            verdict, streamed = _judge(target, self._body)
        else:
            verdict, streamed = await in_worker(_judge, target, self._body)
        if isinstance(verdict, Problem):
            status = 404 if verdict.code == catalogue.NOT_FOUND else 400
            raise ApiError(status, verdict.message, code=verdict.code, param=verdict.param)
        if catalogue.is_drained(verdict, self._context.drained):
            message = f"Model '{verdict.id}' is unavailable at the moment"
            raise ApiError(503, message, code=catalogue.UNAVAILABLE, param="model")
        return verdict, streamed

    async def run(self, model: Model) -> Response:
        """Answer with a whole body."""
        attempt = Attempt(cost=None)  # what it was, should the client leave before the answer is there
        try:
            attempt = await self._context.executor.attempt(
                self._endpoint, model, self._body, self._options, max_body=MAX_ANSWER_BYTES
            )
        finally:
            self._record(model, attempt)
        if attempt.answer is None:
            raise _failure(attempt)
        status, body = attempt.answer
        return Response(body, status, content_type="application/json")

    async def stream(self, model: Model) -> Response:
        """Answer with an event stream; each event goes on as it comes. A client that leaves ends the upstream's work."""
        stack = held()
        opened: OpenStream | Attempt = Attempt(cost=None)

        def record() -> None:
            self._record(model, opened.result if isinstance(opened, OpenStream) else opened)

        stack.callback(record)
        opened = await stack.enter_async_context(
            self._context.executor.stream(self._endpoint, model, self._body, self._options, max_body=MAX_ANSWER_BYTES)
        )
        if isinstance(opened, Attempt):
            raise _failure(opened)
        stream = opened

        async def events() -> AsyncIterator[bytes]:
            async with aclosing(stream.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
            # Before the answer ends, for with its end the server cancels this task.
            await stack.aclose()

        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return Response(events(), stream.status, headers, content_type="text/event-stream; charset=utf-8")

    def _record(self, model: Model, attempt: Attempt) -> None:
        self._context.bookkeeper.record(self._who.account.id, model.id, attempt)


def _judge(target: Target, body: bytes) -> tuple[Model | Problem, bool]:
    members = rawjson.read_object(body)
    verdict = target.judge(body)
    stream: msgspec.Raw | None = members.get("stream")
    return verdict, stream is not None and rawjson.decode(stream) is True


def _failure(attempt: Attempt) -> ApiError:
    failure = attempt.failure
    assert failure is not None, "an attempt ends with an answer or a failure"
    wait = math.ceil(attempt.retry_after) if attempt.retry_after is not None else None
    if wait is None and not attempt.sent:
        wait = 1
    return ApiError(failure.status or 502, failure.message, code=failure.code, retry_after=wait)
