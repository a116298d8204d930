"""Numbers for Prometheus: what a metric is, a histogram, and how a page of them is written.

Parts of the daemon count in plain dictionaries and `Distribution`s of their own, as they work; a `Metric` says what such
numbers mean and reads them when the page is asked for. So counting takes a dictionary's time, and no part but this one
knows prometheus-client. All of it happens on the event loop's thread.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeAlias

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

log = structlog.get_logger(__name__)

Labels: TypeAlias = tuple[str, ...]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Bounds for what may take from milliseconds to a model's ten minutes."""


class Distribution:
    """How many values were at or below each of some bounds, and their sum: a histogram."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)

    def buckets(self) -> list[tuple[str, float]]:
        """Return (bound, values at or below it), as Prometheus writes them: the last bound is +Inf."""
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))


def distributions(bounds: Sequence[float] = SECONDS) -> defaultdict[Labels, Distribution]:
    """Return a dictionary that makes a Distribution for labels it does not have yet."""
    return defaultdict(lambda: Distribution(bounds))


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `read` returns its numbers by the values of its labels, () where it has none; those must come from a
    bounded set: names of the configuration or of the program, never what a client sent.

    name    by Prometheus' rules: `fibatchd_…`, in base units; a counter's ends in `_total`
    help    what it counts, in one line
    """

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    read: Callable[[], Mapping[Labels, float | Distribution]]

    def family(self) -> Family:
        """Return it with its numbers of now."""
        values = self.read()
        if self.kind == "histogram":
            histogram = HistogramMetricFamily(self.name, self.help, labels=self.labels)
            for labels, value in values.items():
                assert isinstance(value, Distribution), self.name
                histogram.add_metric(labels, value.buckets(), value.sum)
            return histogram
        maker = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = maker(self.name, self.help, labels=self.labels)
        for labels, value in values.items():
            assert not isinstance(value, Distribution), self.name
            family.add_metric(labels, value)
        return family


class Page(Collector):
    """All metrics of a process: those given, and what the interpreter and the kernel tell of it."""

    def __init__(self, metrics: Callable[[], Iterable[Metric]]) -> None:
        self._metrics = metrics
        self._registry = CollectorRegistry(auto_describe=False)
        for of_process in (ProcessCollector, PlatformCollector, GCCollector):
            of_process(registry=self._registry)
        self._registry.register(self)

    def collect(self) -> Iterator[Family]:
        """Give each metric's family. One that cannot be read takes no other with it."""
        for metric in self._metrics():
            try:
                yield metric.family()
            except Exception:
                log.exception("a metric cannot be read", metric=metric.name)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its media type, in the format that an `Accept` header prefers; in the usual one where that
        header is malformed."""
        try:
            encode, media_type = choose_encoder(accept)
        except (TypeError, ValueError):  # the library takes a version for numbers, whatever it is
            encode, media_type = choose_encoder("")
        return encode(self._registry), media_type
