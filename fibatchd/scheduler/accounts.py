"""How many batch requests each account has running in this process, over all models, and whom its limit holds up."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from fibatchd.config import Config
from fibatchd.scheduler.budgets import Budgets
from fibatchd.scheduler.roles import Waker


class AccountLoad:
    """Counts by account. A pool that met a limit is woken when one of that account's requests ends in another pool."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self.budgets = Budgets(config)
        self._config = config
        self._running: Counter[str] = Counter()
        self._claiming: Counter[str] = Counter()
        self._held_up: dict[str, set[Waker]] = {}

    def left(self, account_id: str, tier: str) -> int:
        """Return how many more of an account's requests may be claimed to run at once."""
        if self.budgets.is_used_up(account_id):
            return 0
        return max(0, self._limit(tier) - self._running[account_id] - self._claiming[account_id])

    @contextmanager
    def claiming(self, counts: Mapping[str, int], claiming: Waker) -> Iterator[None]:
        """Count so many of each account for as long as the block runs: another pool must not claim for the same places. If
        it met the limit by that, it is woken afterwards, for fewer may have come."""
        self._claiming.update(counts)
        try:
            yield
        finally:
            self._claiming -= Counter(counts)  # which drops those that are back at zero
            for account_id in counts:
                self._wake_others(account_id, claiming)

    def begin(self, account_id: str, tier: str, asking: Waker) -> bool:
        """Count one more as running, and return True; or where the account is at its limit, see to it that `asking` is
        woken when there is room, and where its quota is used up, that it looks again."""
        if self.budgets.is_used_up(account_id):
            asking.wake(look=True)
            return False
        if self._running[account_id] >= self._limit(tier):
            self.hold_up(account_id, asking)
            return False
        self._running[account_id] += 1
        return True

    def hold_up(self, account_id: str, asking: Waker) -> None:
        """Wake this pool when one of the account's requests ends in another."""
        self._held_up.setdefault(account_id, set()).add(asking)

    def end(self, account_id: str, ending: Waker) -> None:
        """One that `ending` ran is over. It knows itself what may start now; others are told."""
        self._running[account_id] -= 1
        self._wake_others(account_id, ending)
        if not self._running[account_id]:
            del self._running[account_id]
            self._held_up.pop(account_id, None)

    def _wake_others(self, account_id: str, by: Waker) -> None:
        held_up = self._held_up.pop(account_id, set())
        for pool in held_up - {by}:
            pool.wake()
        if by in held_up:
            self._held_up[account_id] = {by}

    def _limit(self, tier: str) -> int:
        limits = self._config().tiers.get(tier)
        return limits.batch_concurrency if limits else 0
