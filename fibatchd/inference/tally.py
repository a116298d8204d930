"""How attempts ended, what they used and cost, since this process started: sums for the metrics page.

Batches and interactive calls are counted apart. What is exact and lasts is in the store; these are rates for operators.
"""

from collections import Counter
from typing import Protocol

from fibatchd.domain.requests import Failure, Usage
from fibatchd.metrics import Labels
from fibatchd.money import PICO

COMPLETED = "completed"
CUT = "cut"
"""The outcome of an attempt that was cut short before there was one: an interactive client left."""


class Ended(Protocol):
    """An attempt that is over, of a batch's request or of an interactive call."""

    @property
    def answer(self) -> tuple[int, bytes] | None: ...
    @property
    def failure(self) -> Failure | None: ...
    @property
    def usage(self) -> Usage | None: ...
    @property
    def cost(self) -> int | None: ...


class Tally:
    """Sums by labels; `way` is "batch" or "interactive"."""

    def __init__(self) -> None:
        self.attempts: Counter[Labels] = Counter()
        """By model, way and outcome: "completed", an error code, or "cut"."""
        self.tokens: Counter[Labels] = Counter()
        """By model, way and kind: "input" (cached ones included), "cached" or "output"."""
        self.cost_usd: dict[Labels, float] = {}
        """By model and way, as far as it is known."""

    def count(self, model: str, way: str, ended: Ended) -> None:
        """Count an attempt that reached an upstream."""
        outcome = COMPLETED if ended.answer is not None else ended.failure.code if ended.failure is not None else CUT
        self.attempts[model, way, outcome] += 1
        if usage := ended.usage:
            self.tokens[model, way, "input"] += usage.input_tokens
            self.tokens[model, way, "cached"] += usage.cached_tokens
            self.tokens[model, way, "output"] += usage.output_tokens
        if ended.cost:
            self.cost_usd[model, way] = self.cost_usd.get((model, way), 0.0) + ended.cost / PICO
