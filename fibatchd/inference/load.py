"""How many interactive requests are on each model, and what room they leave: what batch work yields to.

To the calls that this process serves come those that the other daemons on the database serve; or, where it is more, what
an upstream's own metrics report of everybody else, the other daemons included.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from fibatchd.config import Model


def _nobody(_model_id: str) -> None:
    pass


class Load:
    """Counts by model id. `on_change` is called with the model's id after each change, from the trio thread; whoever
    schedules sets it."""

    def __init__(self, on_change: Callable[[str], None] = _nobody) -> None:
        self.on_change = on_change
        self._own: Counter[str] = Counter()
        self._peers: Mapping[str, int] = {}
        self._reported: dict[str, int] = {}

    @contextmanager
    def enter(self, model_id: str) -> Iterator[None]:
        """Count one interactive request for as long as the block runs."""
        self._own[model_id] += 1
        self.on_change(model_id)
        try:
            yield
        finally:
            self._own[model_id] -= 1
            self.on_change(model_id)

    def interactive(self, model_id: str) -> int:
        """Return the requests on a model that batches of this process yield to, as far as is known."""
        return self._own[model_id] + max(self._peers.get(model_id, 0), self._reported.get(model_id, 0))

    def own(self) -> dict[str, int]:
        """Return what this process serves, for its peers to know; models without any are left out."""
        return dict(+self._own)

    def set_peers(self, counts: Mapping[str, int]) -> None:
        """Replace what the other daemons serve."""
        before, self._peers = self._peers, dict(counts)
        for model_id in before.keys() | self._peers.keys():
            if before.get(model_id, 0) != self._peers.get(model_id, 0):
                self.on_change(model_id)

    def report(self, model_id: str, count: int) -> None:
        """Set what a model's upstreams serve besides the requests sent from here; 0: nothing known."""
        if self._reported.get(model_id, 0) != count:
            self._reported[model_id] = count
            self.on_change(model_id)


def room_for(model: Model, interactive: int) -> float:
    """Return how many batch requests the interactive traffic leaves room for; infinity where nothing is to be kept."""
    if model.capacity is None:
        return math.inf
    return max(0, model.capacity - interactive - model.reserve)
