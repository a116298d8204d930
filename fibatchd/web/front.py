"""What the routes of one app share, and how they reach it: `front()` in any view or plugin route."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager

from quart import Request, current_app

from fibatchd.context import Context, Identify
from fibatchd.domain.requests import Submitted
from fibatchd.errors import ApiError
from fibatchd.web.error_counts import ErrorCounts
from fibatchd.web.exports import Digests
from fibatchd.web.failed_keys import FailedKeys
from fibatchd.web.guards import BodyBudget
from fibatchd.web.throughput import Throughput
from fibatchd.web.traffic import Traffic

MAX_CALL_BYTES = 32 * 2**20
"""An interactive call's body."""
MAX_CALLS_BYTES = 256 * 2**20
"""The bodies of all interactive calls in flight together."""


class Front:
    """Made once by `create_app`. `ready` says whether the daemon takes work; `identify` are the plugins' ways to tell whose
    a request without a key is."""

    def __init__(self, context: Context, ready: Callable[[], bool], identify: Sequence[Identify] = ()) -> None:
        self.context = context
        self.ready = ready
        self.identify = identify
        self.digests = Digests()
        self.error_counts = ErrorCounts()
        self.traffic = Traffic()
        self.throughput = Throughput(context.tally)
        self.failed_keys = FailedKeys(context.config.server.max_failed_keys_per_minute)
        self._creates = BodyBudget(context.config.server.max_buffered_body_bytes)
        self._calls = BodyBudget(MAX_CALLS_BYTES)
        self._in_flight: Counter[str] = Counter()

    def create_body(self, request: Request) -> AbstractAsyncContextManager[bytes]:
        """Receive the body of a call that creates a batch, held until the block ends.

        ApiError 413 over `batches.max_body_bytes`; 503 where all such bodies together would pass
        `server.max_buffered_body_bytes`.
        """
        return self._budget().body(request, self.context.config.batches.max_body_bytes)

    @asynccontextmanager
    async def rerun_bodies(
        self, requests: AsyncGenerator[Sequence[Submitted], None]
    ) -> AsyncIterator[AsyncIterator[Sequence[Submitted]]]:
        """Give the requests of a rerun to who keeps them until the block ends; their bodies count with those of
        `create_body`. ApiError 503 where those are too many."""

        async def counted() -> AsyncGenerator[Sequence[Submitted], None]:
            held = 0
            async for piece in requests:
                held += sum(len(one.body) for one in piece)
                hold(held)
                yield piece

        with self._budget().share() as hold:
            async with aclosing(requests), aclosing(counted()) as given:
                yield given

    def _budget(self) -> BodyBudget:
        self._creates.max_bytes = self.context.config.server.max_buffered_body_bytes  # a reload may have changed it
        return self._creates

    def call_body(self, request: Request) -> AbstractAsyncContextManager[bytes]:
        """Receive the body of an interactive call, held until the block ends. ApiError 413 or 503."""
        return self._calls.body(request, MAX_CALL_BYTES)

    @contextmanager
    def interactive_slot(self, account_id: str, limit: int | None) -> Iterator[None]:
        """Count an interactive call of an account for as long as the block runs. ApiError 429 beyond `limit`."""
        if limit is not None and self._in_flight[account_id] >= limit:
            message = f"You have {limit} interactive requests running, the most that your account may have at once"
            raise ApiError(429, message, code="concurrency_limit_exceeded", retry_after=1)
        self._in_flight[account_id] += 1
        try:
            yield
        finally:
            self._in_flight[account_id] -= 1
            if not self._in_flight[account_id]:
                del self._in_flight[account_id]


def front() -> Front:
    """Return the app's own, inside a request."""
    found: Front = current_app.extensions["fibatchd"]
    return found
