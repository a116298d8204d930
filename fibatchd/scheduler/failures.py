"""A line in the log for each failed attempt, but no more than so many a minute: an upstream that fails a batch of 50,000
must not fill a disk. What was left out is told as a number.
"""

import structlog
import trio

from fibatchd.domain.requests import Outcome
from fibatchd.ids import batch_request_id

log = structlog.get_logger(__name__)

PERIOD_S = 60.0
MOST = 60


class Failures:
    """Logs failed attempts; `run` tells what was left out, once a period."""

    name = "failures"

    def __init__(self) -> None:
        self._shown = 0
        self._left_out = 0

    def note(self, outcome: Outcome) -> None:
        """Log an attempt that was sent and failed. The failure's message stays out: it may quote the model's server, which
        may quote the prompt."""
        claimed, failure = outcome.claimed, outcome.failure
        if failure is None or not outcome.sent:
            return
        if self._shown >= MOST:
            self._left_out += 1
            return
        self._shown += 1
        log.warning(
            "attempt failed",
            batch=claimed.batch_id,
            request=batch_request_id(claimed.number),
            request_id=outcome.request_id,
            attempt=claimed.attempt,
            model=claimed.model,
            code=failure.code,
            status=failure.status,
            retry_in=None if outcome.retry_in is None else round(outcome.retry_in, 1),
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Begin a new period every minute, until cancelled."""
        task_status.started()
        try:
            while True:
                await trio.sleep(PERIOD_S)
                self._begin_anew()
        finally:
            self._begin_anew()

    def _begin_anew(self) -> None:
        if self._left_out:
            log.warning("more attempts failed than are shown", left_out=self._left_out, shown=self._shown)
        self._shown = self._left_out = 0
