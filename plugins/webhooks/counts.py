"""What the metrics page shows of deliveries."""

from collections import Counter

from fibatchd.plugin_api import Distribution, Metric

from . import outbox
from .outbox import Attempt, Event

DELIVERED, AGAIN, GIVEN_UP = "delivered", "again", "given_up"


class Counts:
    """Counts attempts since the start."""

    def __init__(self) -> None:
        self.attempts: Counter[tuple[str, ...]] = Counter({(DELIVERED,): 0, (AGAIN,): 0, (GIVEN_UP,): 0})
        self.seconds = Distribution()

    def count(self, event: Event | None, done: Attempt) -> None:
        """Count an attempt; `event` is as it was recorded, None where it was another daemon's by then."""
        if event is None:
            return
        again = AGAIN if event.status == outbox.PENDING else GIVEN_UP
        self.attempts[DELIVERED if event.status == outbox.DELIVERED else again,] += 1
        self.seconds.observe(done.duration_ms / 1000)

    def metrics(self) -> list[Metric]:
        """Return what they are called."""
        return [
            Metric(
                "fibatchd_webhooks_attempts_total",
                "Attempts to deliver an event: delivered, to be tried again, or given up.",
                "counter",
                ("outcome",),
                lambda: self.attempts,
            ),
            Metric(
                "fibatchd_webhooks_duration_seconds",
                "How long such an attempt took.",
                "histogram",
                (),
                lambda: {(): self.seconds},
            ),
        ]
