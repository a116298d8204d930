"""One request at one upstream: counted there while it runs, and what becomes of it counts for or against the upstream.

An upstream that goes out, comes back or refuses our key is the operator's business: it is logged here.
"""

from types import TracebackType

import structlog
import trio

from fibatchd.errors import AnswerTimeout, ConnectFailed, UpstreamError
from fibatchd.upstream.fleet import Member
from fibatchd.upstream.outcome import Verdict

log = structlog.get_logger()

KEY_REFUSED_AGAIN_S = 60.0


class Visit:
    """A context manager around one request. `tokens` it will take are guessed; whoever learns better sets them."""

    def __init__(self, member: Member, tokens: int) -> None:
        self.tokens = tokens
        self._guess = tokens
        self._member = member
        self._number = 0
        self._began = 0.0
        self._answered = False

    def __enter__(self) -> "Visit":
        self._began = trio.current_time()
        self._number = self._member.replica.begin(self._guess, self._began)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = trio.current_time()
        self._member.replica.end(self._number, self.tokens - self._guess, now)
        if self._answered:
            self._member.seconds.observe(now - self._began)

    def answered(self) -> None:
        """The upstream gave an answer, if not the wished one."""
        self._answered = True
        replica = self._member.replica
        if replica.out:
            log.info("an upstream is back", upstream=self._member.upstream.url, model=self._member.upstream.model)
        replica.answered()

    def refused(self, status: int, verdict: Verdict) -> None:
        """The answer was no success."""
        if not verdict.breaks:
            self.answered()
            return
        self._failed(f"status {status}", at_once=False)
        now, member = trio.current_time(), self._member
        if now - member.key_refused_at >= KEY_REFUSED_AGAIN_S:
            member.key_refused_at = now
            log.error("an upstream refuses our key", upstream=member.upstream.url, model=member.upstream.model)

    def broke(self, error: UpstreamError, verdict: Verdict | None) -> None:
        """There was no whole answer; `verdict` is None where nothing was sent."""
        if isinstance(error, ConnectFailed):
            self._failed(str(error), at_once=True)
        elif verdict is not None and verdict.breaks:
            self._failed(str(error), at_once=False)
        elif not isinstance(error, AnswerTimeout):
            self.answered()

    def pause(self, seconds: float) -> None:
        """The upstream asked to be left alone for so long."""
        self._member.replica.pause(trio.current_time() + seconds)

    def _failed(self, why: str, *, at_once: bool) -> None:
        replica = self._member.replica
        was_out = replica.out
        replica.failed(trio.current_time(), at_once=at_once, number=self._number)
        if replica.out and not was_out:
            log.warning(
                "an upstream is out", upstream=self._member.upstream.url, model=self._member.upstream.model, reason=why
            )
