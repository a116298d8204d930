"""When the client's next bytes must have come: pure, so that it can be read and tested without a socket."""

from enum import Enum
from math import inf

from .limits import Limits


class Phase(Enum):
    """What the server waits for on a connection."""

    IDLE = "the next request"
    HEAD = "the rest of a request's head"
    BODY = "the rest of a request's body"
    ANSWER = "nothing: the handler is at work"


class Pace:
    """The deadline of one connection's reading. `now` is trio's clock, in seconds.

    A new connection starts in HEAD: one that never sends a request has only the head's time.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._phase = Phase.HEAD
        self._received = 0
        self.deadline = now + limits.head_s

    def enter(self, phase: Phase, now: float) -> None:
        """Note the phase that the bytes so far have led to; its time starts when it is a new one."""
        if phase is not self._phase:
            self._phase = phase
            self.restart(now)

    def restart(self, now: float) -> None:
        """Start the phase's time again, also after a pause that was not the client's."""
        limits = self._limits
        times = {Phase.IDLE: limits.idle_s, Phase.HEAD: limits.head_s, Phase.BODY: limits.body_window_s}
        self.deadline = now + times.get(self._phase, inf)
        self._received = 0

    def received(self, size: int) -> None:
        self._received += size

    def kept_up(self) -> bool:
        """At the deadline: whether a body came fast enough in its window, so that it gets another."""
        return self._phase is Phase.BODY and self._received >= self._limits.body_floor * self._limits.body_window_s
