"""Whose turn it is: accounts take turns for a model's free places, and inside an account its batches do. Pure.

So a batch of 50,000 requests holds up a batch of 20 behind it by one round at most, and an account gains nothing by
splitting its work into many batches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Lane(Protocol):
    """What turns are given to; see store.claims.Candidate."""

    @property
    def lane(self) -> int:
        """Its id."""
        ...

    @property
    def queued(self) -> int:
        """How many requests it has at most."""
        ...

    @property
    def batch_id(self) -> str:
        """Its batch."""
        ...


@dataclass(slots=True)
class Turns:
    """Remembers who was served last, so that the next free place goes to the one after."""

    _last_account: str = ""
    _last_lane: dict[str, int] = field(default_factory=dict)

    def pick(self, lanes: Mapping[str, Sequence[Lane]], free: int, room: Callable[[str], int]) -> list[tuple[int, int]]:
        """Share `free` places among `lanes` (by account id) and return (lane, count) pairs.

        `room` tells how many more requests an account may have running.
        """
        left = {account: min(room(account), free) for account in lanes}
        # In the order of their ids, by which `_last_lane` knows who comes after.
        queues = {
            account: _rotated(sorted(found, key=lambda lane: lane.lane), self._last_lane.get(account))
            for account, found in lanes.items()
            if found
        }
        order = _after(sorted(queues), self._last_account)
        queued = {lane.lane: lane.queued for found in queues.values() for lane in found}
        taken: dict[int, int] = {}
        while free > 0 and order:
            still: list[str] = []
            for account in order:
                if free == 0:
                    still.append(account)
                    continue
                lane = _next(queues[account], queued) if left[account] > 0 else None
                if lane is None:
                    continue
                queued[lane.lane] -= 1
                left[account] -= 1
                free -= 1
                taken[lane.lane] = taken.get(lane.lane, 0) + 1
                self._last_account = account
                self._last_lane[account] = lane.lane
                still.append(account)
            order = still
        for account in self._last_lane.keys() - lanes.keys():
            del self._last_lane[account]
        return sorted(taken.items())


def _next(lanes: list[Lane], queued: dict[int, int]) -> Lane | None:
    """Return the first lane that has something left and move it behind the others."""
    for _ in range(len(lanes)):
        lane = lanes.pop(0)
        lanes.append(lane)
        if queued[lane.lane] > 0:
            return lane
    return None


def _rotated(lanes: list[Lane], last: int | None) -> list[Lane]:
    for index, lane in enumerate(lanes):
        if last is not None and lane.lane > last:
            return lanes[index:] + lanes[:index]
    return lanes


def _after(accounts: list[str], last: str) -> list[str]:
    for index, account in enumerate(accounts):
        if account > last:
            return accounts[index:] + accounts[:index]
    return accounts
