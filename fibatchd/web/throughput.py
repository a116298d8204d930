"""How much of each model this daemon has done in the last minute: the differences of its running sums."""

from collections import Counter, deque
from dataclasses import dataclass, field

import trio

from fibatchd.beat import beat
from fibatchd.inference.tally import COMPLETED, Tally

SAMPLE_S = 5.0
OVER_S = 60.0


@dataclass(slots=True)
class _Sums:
    """Sums by model since the process started."""

    at: float
    attempts: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    input_tokens: Counter[str] = field(default_factory=Counter)
    output_tokens: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class PerMinute:
    """What a model does in a minute, going by the last `basis_s` seconds."""

    basis_s: float
    attempts: float
    failed: float
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Rates:
    """What has come since `before`, by model."""

    before: _Sums
    now: _Sums

    def of(self, model_id: str) -> PerMinute:
        """Return a model's rates."""
        basis = self.now.at - self.before.at

        def rate(name: str) -> float:
            more = getattr(self.now, name)[model_id] - getattr(self.before, name)[model_id]
            return round(60 * more / basis, 2) if basis else 0.0

        return PerMinute(round(basis, 1), *map(rate, ("attempts", "failed", "input_tokens", "output_tokens")))


class Throughput:
    """Looks at the tally every few seconds; a service."""

    name = "throughput"

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._samples: deque[_Sums] = deque(maxlen=round(OVER_S / SAMPLE_S))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look until cancelled."""
        self._samples.append(self._sums())
        task_status.started()
        while True:
            await trio.sleep_until(beat(SAMPLE_S))
            self._samples.append(self._sums())

    def rates(self) -> Rates:
        """Return the rates of all models as they are now: the whole tally is gone through for that."""
        now = self._sums()
        return Rates(self._samples[0] if self._samples else now, now)

    def _sums(self) -> _Sums:
        sums = _Sums(trio.current_time())
        for (model, _, outcome), count in self._tally.attempts.items():
            sums.attempts[model] += count
            if outcome != COMPLETED:
                sums.failed[model] += count
        for (model, _, kind), count in self._tally.tokens.items():
            if kind == "input":
                sums.input_tokens[model] += count
            elif kind == "output":
                sums.output_tokens[model] += count
        return sums
