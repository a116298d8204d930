"""What a pool is to those that do not run requests themselves, and what it has others do."""

from typing import Protocol


class Waker(Protocol):
    """A pool that can be told to look again."""

    def wake(self, *, look: bool = False) -> None:
        """Look again."""
        ...


class Ended(Protocol):
    """What a pool does not decide itself: see pools.py."""

    def owner_gone(self, batch_id: str, why: str) -> None:
        """The batch's key or account is no longer valid."""
        ...

    def model_gone(self, lane: int) -> None:
        """The requests of this lane can never run."""
        ...
