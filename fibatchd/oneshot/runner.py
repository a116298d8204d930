"""Runs the requests of a file: a few at once, each attempt as a batch's, each answer in the journal before it counts."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import trio

from fibatchd.config import Batches, Model
from fibatchd.domain.requests import Result
from fibatchd.errors import FibatchdError
from fibatchd.ids import request_id
from fibatchd.inference.endpoint import Endpoint, Endpoints
from fibatchd.inference.execute import Attempt, Executor
from fibatchd.oneshot.journal import Journal
from fibatchd.oneshot.reading import Line
from fibatchd.scheduler import retry
from fibatchd.upstream.balance import all_out, may_start
from fibatchd.web.render import output_line

GROUP = 256  # records in one write
LOOK_AGAIN_S = 1.0
KEEP_S = 30.0


@dataclass(slots=True)
class Tally:
    """How a run goes. `waiting`: the server cannot be reached, or refuses the key."""

    completed: int = 0
    failed: int = 0
    retried: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    waiting: bool = False


class Runner:
    """One run."""

    def __init__(
        self,
        executor: Executor,
        endpoints: Endpoints,
        models: dict[str, Model],
        settings: Batches,
        journal: Journal,
        *,
        patience_s: float,
        on_change: Callable[[Tally], None],
    ) -> None:
        """
        models      by the name that lines have
        settings    attempts, backoff, and the largest answer
        patience_s  how long a server that cannot be reached is waited for
        on_change   is called with the tally after each request
        """
        self._executor = executor
        self._endpoints = endpoints
        self._models = models
        self._settings = settings
        self._journal = journal
        self._patience_s = patience_s
        self._on_change = on_change
        self._out_since: dict[str, float] = {}
        self._gave_up = False
        self._workers = trio.CancelScope()
        self.tally = Tally()

    async def run(self, lines: Iterator[Line], concurrency: int) -> None:
        """Run all lines that the journal has no answer for; when cancelled or stopped, keep what was answered.

        Raises FibatchdError where the server could not be reached for too long, or the journal cannot be written.
        """
        pending = (line for line in lines if line.index not in self._journal)
        send, receive = trio.open_memory_channel[tuple[int, bytes]](concurrency)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._record, receive)
            async with send:
                with self._workers:
                    async with trio.open_nursery() as workers:
                        for _ in range(concurrency):
                            workers.start_soon(self._work, pending, send)
        if self._gave_up:
            raise FibatchdError(
                f"no answer from the server for {self._patience_s:g} s: it cannot be reached, or it refuses the key"
            )

    def stop(self) -> None:
        """Cut what runs and end; the journal keeps what was answered."""
        self._workers.cancel()

    async def _work(self, pending: Iterator[Line], send: trio.MemorySendChannel[tuple[int, bytes]]) -> None:
        for line in pending:
            answer = await self._answered(line)
            # What was answered, and perhaps paid for, is kept also when the run is being stopped.
            with trio.move_on_after(KEEP_S, shield=True):
                try:
                    await send.send((line.index, answer))
                except trio.BrokenResourceError:
                    return  # nothing can be written any more; who writes says why

    async def _answered(self, line: Line) -> bytes:
        """Run one request until it is done or has failed for good; return its output line."""
        model = self._models[line.model]
        endpoint = self._endpoints[line.endpoint]
        attempts = 0
        while True:
            await self._until_ready(model, endpoint)
            attempt = await self._executor.attempt(
                endpoint, model, line.body, {}, max_body=self._settings.max_result_bytes
            )
            attempts += attempt.sent
            if attempt.answer is not None or (attempt.sent and not self._may_follow(attempt, attempts)):
                return self._finished(line, attempt)
            if attempt.sent:
                self.tally.retried += 1
                await trio.sleep(retry.delay(attempts, attempt.retry_after, self._settings, random.random))

    def _may_follow(self, attempt: Attempt, attempts: int) -> bool:
        return attempt.retry and not retry.is_last(attempts, self._settings)

    def _finished(self, line: Line, attempt: Attempt) -> bytes:
        if attempt.failure is None:
            self.tally.completed += 1
        else:
            self.tally.failed += 1
        if attempt.usage is not None:
            self.tally.input_tokens += attempt.usage.input_tokens
            self.tally.output_tokens += attempt.usage.output_tokens
        self._on_change(self.tally)
        status, body = attempt.answer or (None, None)
        word = "completed" if attempt.failure is None else "failed"
        return output_line(Result(line.index + 1, line.custom_id, word, request_id(), status, body, attempt.failure))

    async def _until_ready(self, model: Model, endpoint: Endpoint) -> None:
        """Wait until a request may be sent. While the server is out, one at a time goes to see whether it is back."""
        while True:
            now = trio.current_time()
            replicas = [member.replica for member in self._executor.members(model, endpoint)]
            self._watch(model.id, all_out(replicas), now)
            room, ready_at = may_start(replicas, now)
            if room >= 1:
                return
            await trio.sleep(min(max(ready_at - now, 0.01), LOOK_AGAIN_S))

    def _watch(self, model_id: str, out: bool, now: float) -> None:
        """Note since when a model's server has been out, and give up when that is too long."""
        if out and now - self._out_since.setdefault(model_id, now) > self._patience_s:
            self._gave_up = True
            self.stop()
        if not out:
            self._out_since.pop(model_id, None)
        if self.tally.waiting != bool(self._out_since):
            self.tally.waiting = bool(self._out_since)
            self._on_change(self.tally)

    async def _record(self, receive: trio.MemoryReceiveChannel[tuple[int, bytes]]) -> None:
        """Write answers to the journal, those that came meanwhile together."""
        async with receive:
            async for first in receive:
                try:
                    await trio.to_thread.run_sync(partial(self._journal.append, [first, *_waiting(receive)]))
                except OSError as error:
                    raise FibatchdError(f"{self._journal.path} cannot be written: {error.strerror}") from None


def _waiting(receive: trio.MemoryReceiveChannel[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Give what is in a channel now, a group at most."""
    for _ in range(GROUP - 1):
        try:
            yield receive.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return
