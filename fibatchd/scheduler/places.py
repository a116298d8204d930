"""How much room a model's interactive traffic has left for batch requests of late. Pure.

Yielding is immediate; coming back takes a second: the room counts as what it was at its least in the last second, so
that batch work does not jump into every gap between two interactive requests.
"""

import math
from collections import deque

SETTLE_S = 1.0


class Room:
    """The least that a value was in the last SETTLE_S seconds."""

    def __init__(self) -> None:
        self._now_in_force = math.inf
        self._past: deque[tuple[float, float]] = deque()  # (value, until when it was in force), values rising

    def note(self, value: float, now: float) -> None:
        """The value is this from now on."""
        before = self._now_in_force
        if value == before:
            return
        # What was larger, and over earlier, can no longer be the least.
        while self._past and self._past[-1][0] >= before:
            self._past.pop()
        if before < math.inf:
            self._past.append((before, now))
        self._now_in_force = value

    def least(self, now: float) -> float:
        """Return the least value of the last second; infinity before the first."""
        self._forget(now)
        return min(self._now_in_force, self._past[0][0] if self._past else math.inf)

    def rises_at(self, now: float) -> float:
        """Return when the least value may rise by itself; infinity when it will not."""
        self._forget(now)
        if self._past and self._past[0][0] < self._now_in_force:
            return self._past[0][1] + SETTLE_S
        return math.inf

    def _forget(self, now: float) -> None:
        while self._past and self._past[0][1] + SETTLE_S <= now:
            self._past.popleft()
