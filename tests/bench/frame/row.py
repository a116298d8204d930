"""A row of the bench: the figures it gives, the level that each is to reach, and one run that measures them.

A row is a module in `rows/` with a `ROW`. `python tests/bench/run.py NAME` makes its runs.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One number and its level: `at_least` or `at_most`. `title` is a line of the page's table, `unit` follows the number."""

    key: str
    title: str
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""

    def is_met(self, values: Sequence[float]) -> bool:
        """Whether the median of the runs reaches the level."""
        median = statistics.median(values)
        if self.at_least is not None:
            return median >= self.at_least
        assert self.at_most is not None, self.key
        return median <= self.at_most

    @property
    def level(self) -> str:
        """The level as text."""
        sign, value = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{sign} {value:g}{self.unit and ' ' + self.unit}"


@dataclass(frozen=True)
class Row:
    """`measure` makes one run, from nothing to nothing, and returns its numbers: one for each figure by its key, and any
    others, by what they are, which stand beside the figures on the page."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[], Mapping[str, float]]
