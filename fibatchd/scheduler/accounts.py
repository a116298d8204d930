"""How many batch requests each account has running in this process, over all models, and whom its limit holds up."""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from fibatchd.config import Config


class Waker(Protocol):
    """A pool that can be told to look again."""

    def wake(self, *, look: bool = False) -> None:
        """Look again."""
        ...


class AccountLoad:
    """Counts by account. A pool that met a limit is woken when one of that account's requests ends anywhere."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._running: Counter[str] = Counter()
        self._held_up: dict[str, set[Waker]] = {}

    def room(self, account_id: str, tier: str, wanted: int, asking: Waker) -> int:
        """Return how many of `wanted` more requests of an account may run; where not all, `asking` is woken when one of
        the account's ends."""
        left = self.left(account_id, tier)
        if left < wanted:
            self._held_up.setdefault(account_id, set()).add(asking)
        return min(wanted, left)

    def left(self, account_id: str, tier: str) -> int:
        """Return how many more of an account's requests may run."""
        limits = self._config().tiers.get(tier)
        return max(0, (limits.batch_concurrency if limits else 0) - self._running[account_id])

    def reserve(self, account_id: str, count: int = 1) -> None:
        """Count so many as running."""
        self._running[account_id] += count

    def release(self, account_id: str, count: int = 1) -> None:
        """So many are over."""
        self._running[account_id] -= count
        if self._running[account_id] <= 0:
            del self._running[account_id]
        for pool in self._held_up.pop(account_id, ()):
            pool.wake()

    def running(self, account_id: str) -> int:
        """Return how many of an account's requests run here."""
        return self._running[account_id]
