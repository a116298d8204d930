"""When a delivery that failed is tried again. Pure."""

from .settings import Settings

FACTORS = (1, 60, 360, 1440, 3600, 7200, 10080)
"""The waits between attempts, in units of the first: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 14 h by default."""
JITTER = 0.1
RETRY_AFTER_CAP_S = 86400.0
"""A receiver may ask for a longer wait than the schedule's, but not for ever."""


def next_wait(tries: int, settings: Settings, *, chance: float, retry_after: float | None = None) -> float | None:
    """Return the seconds from the failure of attempt number `tries` to the next attempt; None where there is none.

    `chance` is a random number from 0 to 1, which spreads the wait by a tenth to both sides, so that what failed together
    does not come again together. `retry_after` is what the receiver asked for, in seconds; the longer wait counts.
    """
    if tries >= settings.max_attempts:
        return None
    factor = FACTORS[min(tries, len(FACTORS)) - 1]
    planned = min(settings.retry_base_s * factor, settings.retry_cap_s) * (1 + JITTER * (2 * chance - 1))
    return max(planned, min(retry_after or 0, RETRY_AFTER_CAP_S))
