"""When a failed attempt is tried again. Pure."""

from collections.abc import Callable

from fibatchd.config import Batches


def delay(attempt: int, retry_after: float | None, settings: Batches, random: Callable[[], float]) -> float:
    """Return the seconds to wait after attempt number `attempt` (from 1): exponential backoff with full jitter, which
    keeps a burst of failures from coming back as a burst; never less than the upstream's `Retry-After`, capped.

    `random` gives numbers in [0, 1).
    """
    exponent = min(attempt - 1, 63)  # beyond it the cap has long been reached, and floats overflow
    backoff = min(settings.retry_cap_s, settings.retry_base_s * settings.retry_factor**exponent)
    asked = min(retry_after or 0.0, settings.retry_after_cap_s)
    return max(asked, random() * backoff)


def is_last(attempt: int, settings: Batches) -> bool:
    """Whether no attempt may follow this one."""
    return attempt >= settings.max_attempts
