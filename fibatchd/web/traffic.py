"""What passes through the HTTP front end, counted for the metrics page."""

from collections import Counter
from collections.abc import Callable, Mapping

from fibatchd.metrics import Labels, distributions

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""Stands for methods and paths that no route has: what clients make up must not make metrics of its own."""


def _no_connections() -> Mapping[Labels, int]:
    return {}


class Traffic:
    """Counts since the start."""

    def __init__(self) -> None:
        self.requests: Counter[Labels] = Counter()
        """By method, route (such as "/v1/batches/<batch_id>") and status."""
        self.seconds = distributions()
        """By route: from a request's head to the end of its answer, streams included."""
        self.refused: Counter[Labels] = Counter()
        """By status: answered below the routes, for what came was no request, too large, too slow, or too late."""
        self.connections: Callable[[], Mapping[Labels, int]] = _no_connections
        """Open ones, by "busy" (answering) or "idle"; set by the server."""

    def count(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        route = route or OTHER
        self.requests[method if method in METHODS else OTHER, route, str(status)] += 1
        self.seconds[route,].observe(seconds)

    def refuse(self, status: int) -> None:
        """Count a request that no route has seen."""
        self.refused[str(status),] += 1
