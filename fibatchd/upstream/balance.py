"""Which of a model's upstreams is tried next, and when none may be: load, pauses, pacing and the circuit breaker.

All decisions are synchronous and take the time (trio's clock, seconds) as a parameter; the I/O is in `client.py`.

The breaker. An upstream is out at the first connection that cannot be made, or after FAILURES_MAX lost connections or
refused keys in a row; the next request in turn probes it after 1 s, doubling to 30 s; any other answer takes it back.
"""

import math
from collections.abc import Collection

from fibatchd.config import Upstream

FAILURES_MAX = 5
PROBE_FIRST_S = 1.0
PROBE_CAP_S = 30.0
MEAN_OVER = 16  # requests
BURST_S = 1.0  # how much of an upstream's pace may be spent at once


class Pace:
    """So many units a minute, spent evenly: the generic cell rate algorithm. None is no limit."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._next = -math.inf

    def ready_at(self) -> float:
        """Return from when on something may be spent."""
        return self._next - BURST_S if self._interval else -math.inf

    def room(self, now: float) -> float:
        """Return how many units may be spent now, infinity without a limit."""
        return (now - self.ready_at() + 1e-9) // self._interval + 1 if self._interval else math.inf

    def spend(self, units: float, now: float) -> None:
        """Spend units; negative ones are given back."""
        if self._interval:
            self._next = max(self._next, now) + units * self._interval


class Replica:
    """One upstream of one model, and how it does."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.in_flight = 0
        self.paused_until = -math.inf
        self.out = False
        self._failures = 0
        self._begun = 0
        self._probe: int | None = None  # the number of the request that is on its way as one
        self._probe_at = -math.inf
        self._probe_wait = PROBE_FIRST_S
        self._requests = Pace(upstream.requests_per_minute)
        self._tokens = Pace(upstream.tokens_per_minute)
        self._mean_tokens = 1.0  # of the requests of late
        self._paced = bool(upstream.requests_per_minute or upstream.tokens_per_minute)

    def ready_at(self) -> float:
        """Return from when on it may be tried; infinity while a probe is under way."""
        if not (self.out or self._paced):
            return self.paused_until  # by far the most, and each request asks several times
        breaker = -math.inf
        if self.out:
            breaker = self._probe_at if self._probe is None else math.inf
        return max(breaker, self.paused_until, self._requests.ready_at(), self._tokens.ready_at())

    def state(self, now: float) -> str:
        """Return how it does in a word: "up", "paused" (it asked to be left alone), "down", or "probing"."""
        if self.out:
            return "down" if self._probe is None else "probing"
        return "paused" if self.paused_until > now else "up"

    def room(self, now: float) -> float:
        """Return how many requests may go to it now: none, one as a probe, about what its paces leave, or infinitely many."""
        if self.ready_at() > now:
            return 0
        if self.out:
            return 1
        if not self._paced:
            return math.inf
        # Whatever is left of the tokens, one more may be begun.
        return min(self._requests.room(now), max(1, self._tokens.room(now) / self._mean_tokens))

    def begin(self, tokens: int, now: float) -> int:
        """A request of about so many tokens goes to it. Return the number it has here."""
        self.in_flight += 1
        self._begun += 1
        if self.out:
            self._probe = self._begun
        self._requests.spend(1, now)
        self._tokens.spend(tokens, now)
        self._mean_tokens += (max(1, tokens) - self._mean_tokens) / MEAN_OVER
        return self._begun

    def end(self, number: int, tokens: int, now: float) -> None:
        """The request of this number is over; `tokens` is by how many the guess was too low. If it was a probe and decided
        nothing, since we cut it short, another one may go."""
        self.in_flight -= 1
        self._tokens.spend(tokens, now)
        if number == self._probe:
            self._probe = None

    def answered(self) -> None:
        """It gave an answer, if not the wished one: it is there."""
        self.out = False
        self._probe = None
        self._failures = 0
        self._probe_wait = PROBE_FIRST_S

    def failed(self, now: float, *, at_once: bool, number: int | None = None) -> None:
        """A connection was lost or the key refused; or, `at_once`, no connection could be made. `number` is the request's:
        an older one that fails late says nothing about a replica that is being probed."""
        self._failures += 1
        if self.out:
            if number is not None and number == self._probe:
                self._probe = None
                self._probe_wait = min(self._probe_wait * 2, PROBE_CAP_S)
                self._probe_at = now + self._probe_wait
        elif at_once or self._failures >= FAILURES_MAX:
            self.out = True
            self._probe_wait = PROBE_FIRST_S
            self._probe_at = now + self._probe_wait

    def pause(self, until: float) -> None:
        """It asked to be left alone until then."""
        self.paused_until = max(self.paused_until, until)


def choose(replicas: Collection[Replica], now: float) -> Replica | None:
    """Return the replica to try: of those that may be tried now, the one with the fewest requests for its weight.

    A replica that is to be probed is tried before the others get more: else it would stay out while they cope.
    """
    ready = [replica for replica in replicas if replica.ready_at() <= now]
    if len(ready) < 2:
        return ready[0] if ready else None
    return min(ready, key=lambda r: (not r.out, (r.in_flight + 1) / r.upstream.weight))


def may_start(replicas: Collection[Replica], now: float) -> tuple[float, float]:
    """Return how many more requests may be started now (infinity for any number), and when to ask again.

    While every replica is out, that is one: the probe.
    """
    if not replicas:
        return 0, math.inf
    room = [replica.room(now) for replica in replicas if not replica.out]
    if any(room):
        return sum(room), now
    probes = sum(replica.room(now) for replica in replicas if replica.out)
    return probes, min(replica.ready_at() for replica in replicas)


def all_out(replicas: Collection[Replica]) -> bool:
    """Whether no replica is known to work."""
    return all(replica.out for replica in replicas)
