"""What accounts may still spend of the day's quota, between two looks into the store: what has been claimed ahead must not
start once the quota is used up, and a fast model uses one up between two claims. Pure."""

from collections.abc import Callable, Mapping

from fibatchd.config import Config
from fibatchd.domain.accounts import Account
from fibatchd.inference.entitlement import daily_quota


class Budgets:
    """By account, in pico-USD: the quota less what the store knew to be spent, less what has ended here since. Daemons share
    it: each stops at its part, and looks whether there is more."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._left: dict[str, int] = {}
        self._day = ""

    def renew(self, day: str) -> None:
        """It is this UTC day, as `2026-11-29`. On a new one all quotas renew, so everybody is forgotten until they are noted
        again, which those who have nothing to run never are."""
        if day > self._day:
            self._day = day
            self._left.clear()

    def note(self, account: Account, spent: int, unwritten: Mapping[str, int], daemons: int) -> None:
        """The store says what is spent today; `unwritten` is, by account, what has ended here and is not stored yet."""
        quota = daily_quota(self._config(), account)
        if quota is None:
            self._left.pop(account.id, None)
        else:
            # Rounded up: the last of it is for everybody.
            self._left[account.id] = -((spent + unwritten.get(account.id, 0) - quota) // daemons)

    def spend(self, account_id: str, cost: int | None) -> None:
        """An attempt has ended here; what it cost may be unknown."""
        if cost and account_id in self._left:
            self._left[account_id] -= cost

    def is_used_up(self, account_id: str) -> bool:
        """Whether nothing more of this account may start."""
        return self._left.get(account_id, 1) <= 0
