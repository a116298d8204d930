"""How many batch requests of a model may run here now: its concurrency, less what interactive traffic needs. Pure.

Yielding is immediate; coming back takes a second: the room counts as what it was at its least in the last second, so
that batch work does not jump into every gap between two interactive requests.
"""

import math
from collections import deque

from fibatchd.config import Model

SETTLE_S = 1.0


class Room:
    """The least of a value over the last SETTLE_S seconds, the value in force at their beginning included."""

    def __init__(self) -> None:
        self._values: deque[tuple[float, float]] = deque()  # (since, value), values rising

    def note(self, value: float, now: float) -> None:
        """The value is this from now on."""
        while self._values and self._values[-1][1] >= value:
            self._values.pop()
        self._values.append((now, value))

    def least(self, now: float) -> float:
        """Return the least value in the window; infinity before the first."""
        self._forget(now)
        return self._values[0][1] if self._values else math.inf

    def rises_at(self, now: float) -> float:
        """Return when the least value may rise by itself; infinity when it will not."""
        self._forget(now)
        return self._values[1][0] + SETTLE_S if len(self._values) > 1 else math.inf

    def _forget(self, now: float) -> None:
        # A value went out of force when the next one began.
        while len(self._values) > 1 and self._values[1][0] + SETTLE_S <= now:
            self._values.popleft()


def room_for(model: Model, interactive: int) -> float:
    """Return how many batch requests the interactive traffic leaves room for; infinity where nothing is to be kept."""
    if model.capacity is None:
        return math.inf
    return max(0, model.capacity - interactive - model.reserve)
