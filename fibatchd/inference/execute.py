"""One attempt at one request: choose an upstream, send, judge the answer, translate it back, count its cost.

Batches and interactive calls both come through here, so that a batched request is served exactly as a direct one.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, TypeVarTuple

import trio
from msgspec import Struct

from fibatchd import rawjson
from fibatchd.config import Model
from fibatchd.domain.requests import Failure, Usage
from fibatchd.errors import AnswerTooLarge, ConnectFailed, UpstreamError
from fibatchd.inference.cost import believable, cost_of
from fibatchd.inference.endpoint import BrokenReply, Call, Endpoint, Options, Refused, Route, StreamEditor
from fibatchd.upstream import outcome
from fibatchd.upstream.answer import Answer
from fibatchd.upstream.balance import all_out, choose
from fibatchd.upstream.fleet import Fleet, Member, private_texts
from fibatchd.upstream.interface import Streamed
from fibatchd.upstream.outcome import Verdict
from fibatchd.upstream.visit import Visit
from fibatchd.worker import in_worker

T = TypeVar("T")
Args = TypeVarTuple("Args")

UNAVAILABLE_TEXT = "No server of the model can be reached at the moment"
BYTES_PER_TOKEN = 4
"""About so many, in English: the guess that an upstream's tokens are paced by until the answer tells."""
LARGE_BYTES = 128 * 1024
"""A larger body is worked on in a thread: to parse megabytes of floats would hold the loop for tenths of a second."""


class Attempt(Struct, frozen=True):
    """How an attempt ended: with an `answer` (status, body) or a `failure`.

    retry        whether it may pass
    retry_after  seconds the upstream asked to wait, or None
    cost         pico-USD; None: it cannot be known
    sent         False: no upstream was reached, so that it is no attempt
    """

    answer: tuple[int, bytes] | None = None
    failure: Failure | None = None
    retry: bool = False
    retry_after: float | None = None
    usage: Usage | None = None
    cost: int | None = 0
    sent: bool = True


@dataclass(slots=True)
class OpenStream:
    """A streamed success on its way: `async for chunk in stream.chunks()` gives what goes to the client. When it is
    over, `result` says how it ended."""

    status: int
    editor: StreamEditor
    result: Attempt
    _answer: Streamed
    _visit: Visit

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Give edited chunks as they come. A stream that breaks ends with the API's own error event."""
        try:
            async for chunk in self._answer:
                if edited := self.editor.feed(chunk):
                    yield edited
            if rest := self.editor.close():
                yield rest
        except (UpstreamError, BrokenReply) as error:
            verdict = outcome.of_error(error) if isinstance(error, UpstreamError) else outcome.broken_answer()
            if isinstance(error, UpstreamError):
                self._visit.broke(error, verdict)
            self.result = Attempt(failure=verdict.failure, cost=None, usage=believable(self.editor.usage))
            if last := self.editor.failed(verdict.failure.code, verdict.failure.message):
                yield last

    def note_end(self, model: Model) -> None:
        """Whoever took the chunks has taken the last, or does not want more."""
        usage = believable(self.editor.usage)
        if usage is not None:
            self._visit.tokens = usage.input_tokens + usage.output_tokens
        if self.result.failure is None:
            self.result = Attempt((self.status, b""), usage=usage, cost=cost_of(model.price, usage))


class Executor:
    """Runs attempts on the fleet."""

    def __init__(self, fleet: Fleet, *, retry_after_cap_s: float = 600) -> None:
        self.fleet = fleet
        self.retry_after_cap_s = retry_after_cap_s

    def members(self, model: Model, endpoint: Endpoint) -> list[Member]:
        """Return the model's upstreams that can serve the endpoint."""
        return [member for member in self.fleet.of(model.id) if endpoint.carries(model, member.upstream)]

    async def attempt(
        self,
        endpoint: Endpoint,
        model: Model,
        body: bytes,
        options: Options,
        *,
        max_body: int,
        patient: bool = False,
    ) -> Attempt:
        """Run a request once, on the first upstream that can be reached, and return how it ended. A `patient` one lets
        other work go first. Never raises but trio.Cancelled: then the answer, and its cost, are lost."""
        able = self.members(model, endpoint)
        left, refusal = able.copy(), None
        while (member := _next(left)) is not None:
            route = Route(model, member.upstream)
            left.remove(member)
            try:
                call = await _off_loop(body, endpoint.call, body, route, options)
            except Refused as refused:
                refusal = refused
                able.remove(member)
                continue
            with suppress(ConnectFailed):
                return await self._send(endpoint, call, route, member, max_body, patient)
        return self._nobody(able, refusal)

    async def _send(
        self, endpoint: Endpoint, call: Call, route: Route, member: Member, max_body: int, patient: bool
    ) -> Attempt:
        with Visit(member, len(call.body) // BYTES_PER_TOKEN) as visit:
            try:
                answer = await member.client.request(
                    "POST",
                    _path(call, member),
                    call.body,
                    headers=call.headers,
                    timeout=member.upstream.timeout_s,
                    max_body=max_body,
                    patient=patient,
                )
            except UpstreamError as error:
                return _broken(visit, error)
            if not 200 <= answer.status < 300:
                return self._refusal(visit, route, answer.status, answer.header(b"retry-after"), answer.body)
            visit.answered()
            attempt = await _off_loop(answer.body, _success, endpoint, call, route, answer, max_body)
            if attempt.usage is not None:
                visit.tokens = attempt.usage.input_tokens + attempt.usage.output_tokens
            return attempt

    def _refusal(self, visit: Visit, route: Route, status: int, wait: bytes | None, body: bytes) -> Attempt:
        """Judge an answer that is no success, and let it count for the upstream."""
        verdict = outcome.of_status(
            status,
            body,
            upstream_model=route.upstream.model,
            model=route.model.id,
            private=private_texts(route.upstream),
        )
        visit.refused(status, verdict)
        seconds = outcome.retry_after(wait, time.time())
        if seconds is not None:
            seconds = min(seconds, self.retry_after_cap_s)
            if status == 429:
                visit.pause(seconds)
        return _of(verdict, seconds)

    @asynccontextmanager
    async def stream(
        self, endpoint: Endpoint, model: Model, body: bytes, options: Options, *, max_body: int
    ) -> AsyncIterator[OpenStream | Attempt]:
        """Run an interactive request whose answer streams. Gives an Attempt where it failed before the first event.

        Leaving the block stops the upstream's work.
        """
        able = self.members(model, endpoint)
        left, refusal = able.copy(), None
        while (member := _next(left)) is not None:
            route = Route(model, member.upstream)
            left.remove(member)
            try:
                call = await _off_loop(body, partial(endpoint.call, body, route, options, stream=True))
                editor = endpoint.editor(call, route)
            except Refused as refused:
                refusal = refused
                able.remove(member)
                continue
            with suppress(ConnectFailed), Visit(member, len(call.body) // BYTES_PER_TOKEN) as visit:
                async with self._streamed(call, editor, visit, member, route, max_body) as opened:
                    yield opened
                return
        yield self._nobody(able, refusal)

    @asynccontextmanager
    async def _streamed(
        self, call: Call, editor: StreamEditor, visit: Visit, member: Member, route: Route, max_body: int
    ) -> AsyncIterator[OpenStream | Attempt]:
        """Send to this member. Raises ConnectFailed where nothing could be sent."""
        reached = False
        try:
            async with member.client.stream(
                "POST", _path(call, member), call.body, headers=call.headers, timeout=member.upstream.timeout_s
            ) as answer:
                reached = True
                if 200 <= answer.status < 300:
                    visit.answered()
                    # Until it has ended well nobody knows what it cost.
                    stream = OpenStream(answer.status, editor, Attempt(cost=None), answer, visit)
                    yield stream
                    stream.note_end(route.model)
                else:
                    body = await _error_body(answer, max_body)
                    yield self._refusal(visit, route, answer.status, answer.header(b"retry-after"), body)
        except UpstreamError as error:
            if reached:
                raise
            yield _broken(visit, error)

    def _nobody(self, able: Sequence[Member], refusal: Refused | None) -> Attempt:
        """Say why no upstream may be tried now: none can carry the request; or those that are able to are all out, or all
        want to be left alone for a while."""
        if refusal is not None and not able:
            return _refused(refusal)
        replicas = [member.replica for member in able]
        if all_out(replicas):
            return Attempt(failure=Failure(outcome.UNAVAILABLE, UNAVAILABLE_TEXT, 503), retry=True, sent=False)
        wait = max(0.0, min(replica.ready_at() for replica in replicas) - trio.current_time())
        text = "The model's server is limiting requests"
        return Attempt(failure=Failure(outcome.RATE_LIMITED, text, 429), retry=True, retry_after=wait, sent=False)


def _next(members: list[Member]) -> Member | None:
    chosen = choose([member.replica for member in members], trio.current_time())
    return next((member for member in members if member.replica is chosen), None)


def _path(call: Call, member: Member) -> str:
    """Return the path below the upstream's URL, which on an openai one ends in /v1 already."""
    return call.path.removeprefix("/v1") if member.upstream.protocol == "openai" else call.path


async def _off_loop(body: bytes, work: Callable[[*Args], T], *args: *Args) -> T:
    """Do the work on a body, in the thread for that where it is large."""
    if len(body) <= LARGE_BYTES:
        return work(*args)
    return await in_worker(work, *args)


async def _error_body(answer: Streamed, max_body: int) -> bytes:
    try:
        return await answer.read(max_body)
    except UpstreamError:
        return b""


def _success(endpoint: Endpoint, call: Call, route: Route, answer: Answer, max_body: int) -> Attempt:
    """Judge a 2xx answer: what it becomes for the client, and what it cost."""
    try:
        if not rawjson.is_object(answer.body):
            raise BrokenReply("the body is not a JSON object")
        reply = endpoint.reply(answer.body, call, route)
    except BrokenReply:
        return _of(outcome.broken_answer())
    if len(reply.body) > max_body:
        return _of(outcome.of_error(AnswerTooLarge("translated")))
    usage = believable(reply.usage)
    return Attempt((answer.status, reply.body), usage=usage, cost=cost_of(route.model.price, usage))


def _broken(visit: Visit, error: UpstreamError) -> Attempt:
    """Judge an attempt without a whole answer. ConnectFailed is raised on: nothing was sent."""
    if isinstance(error, ConnectFailed):
        visit.broke(error, None)
        raise error
    verdict = outcome.of_error(error)
    visit.broke(error, verdict)
    return _of(verdict)


def _refused(refused: Refused) -> Attempt:
    return Attempt(failure=Failure(outcome.INVALID, refused.problem.message, 400), cost=0)


def _of(verdict: Verdict, retry_after: float | None = None) -> Attempt:
    return Attempt(
        failure=verdict.failure, retry=verdict.retry, retry_after=retry_after, cost=0 if verdict.cost_known else None
    )
