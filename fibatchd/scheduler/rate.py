"""How often something has happened of late. Pure."""

import math

OVER_S = 1.0  # what happened before this counts for a third, before twice this for a ninth, and so on


class Rate:
    """Events a second, an average that decays exponentially. Times are seconds, and never go back."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._as_of = 0.0

    def note(self, now: float) -> None:
        """It happens now."""
        self._rate, self._as_of = self.at(now) + 1 / OVER_S, now

    def at(self, now: float) -> float:
        """Return the rate."""
        return self._rate * math.exp((self._as_of - now) / OVER_S)
