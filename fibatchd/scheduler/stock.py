"""What a pool has claimed and not started: whose turn it is, and how much to hold.

A claim takes milliseconds, in which places would come free and stand empty: so as much is claimed ahead as is completed
while claims are under way. For a slow model that is next to nothing, and nothing waits here that others could run.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from fibatchd.scheduler.rate import Rate

AHEAD_S = 0.02  # the stock lasts about so long, or as long as two claims where those take longer
AHEAD_MAX_S = 0.5
GOAL_MAX = 256
CLAIM_WEIGHT = 0.2  # of the last claim among all in how long one takes
HASTE_MAX = 8.0


class Member(Protocol):
    """See domain.requests.Claimed."""

    @property
    def account_id(self) -> str:
        """Whose it is."""
        ...

    @property
    def lane(self) -> int:
        """What it was taken from."""
        ...

    @property
    def batch_id(self) -> str:
        """Its batch."""
        ...


M = TypeVar("M", bound=Member)


class _Holding(Generic[M]):
    """What one account has in stock, by lane; the lane whose turn it is comes first."""

    def __init__(self, account_id: str) -> None:
        self.account_id = account_id
        self.size = 0
        self._lanes: deque[tuple[int, deque[M]]] = deque()

    def add(self, member: M) -> None:
        for lane, members in self._lanes:
            if lane == member.lane:
                members.append(member)
                break
        else:
            self._lanes.append((member.lane, deque((member,))))
        self.size += 1

    def first(self) -> M:
        return self._lanes[0][1][0]

    def take(self) -> M:
        lane, members = self._lanes.popleft()
        member = members.popleft()
        if members:
            self._lanes.append((lane, members))
        self.size -= 1
        return member

    def __iter__(self) -> Iterator[M]:
        return (member for _, members in self._lanes for member in members)


class Stock(Generic[M]):
    """Accounts take turns, and inside an account its lanes do, so that what has just been claimed does not wait for all that
    was claimed before."""

    def __init__(self) -> None:
        self._holdings: dict[str, _Holding[M]] = {}
        self._turns: deque[_Holding[M]] = deque()  # the same; whose turn it is comes first
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[M]:
        return (member for holding in self._turns for member in holding)

    def of(self, account_id: str) -> int:
        """Return how many an account has here."""
        holding = self._holdings.get(account_id)
        return holding.size if holding is not None else 0

    def add(self, members: Iterable[M]) -> None:
        """Put in what was claimed."""
        for member in members:
            holding = self._holdings.get(member.account_id)
            if holding is None:
                holding = self._holdings[member.account_id] = _Holding(member.account_id)
                self._turns.append(holding)
            holding.add(member)
            self._size += 1

    def take(self, may_start: Callable[[M], bool]) -> M | None:
        """Take the next that may start; None where none of any account may."""
        for _ in range(len(self._turns)):
            holding = self._turns.popleft()
            if not may_start(holding.first()):
                self._turns.append(holding)
                continue
            member = holding.take()
            self._size -= 1
            if holding.size:
                self._turns.append(holding)
            else:
                del self._holdings[holding.account_id]
            return member
        return None

    def accounts(self) -> Collection[str]:
        """Return those that have something here."""
        return self._holdings.keys()

    def remove(self, is_meant: Callable[[M], bool]) -> list[M]:
        """Take out all that is meant."""
        found = [member for member in self if is_meant(member)]
        if found:
            kept = [member for member in self.clear() if not is_meant(member)]
            self.add(kept)
        return found

    def clear(self) -> list[M]:
        """Take out everything."""
        everything = list(self)
        self._holdings.clear()
        self._turns.clear()
        self._size = 0
        return everything


class Goal:
    """How many to hold ahead. Times are seconds."""

    def __init__(self) -> None:
        self._completed = Rate()
        self._claim_s = 0.0  # how long claims have taken of late
        self._haste = 1.0  # by how much too low the rate is, since places stood empty

    def note_completed(self, now: float) -> None:
        """A request is done, and its place free."""
        self._completed.note(now)

    def note_claim(self, seconds: float, *, ran_dry: bool) -> None:
        """A claim took so long; `ran_dry`: at its end places stood empty, and would have had more to run."""
        self._claim_s += CLAIM_WEIGHT * (seconds - self._claim_s)
        self._haste = min(HASTE_MAX, self._haste * 2) if ran_dry else max(1.0, self._haste * 0.9)

    def at(self, now: float) -> int:
        """Return how many are to be there after a claim."""
        lead = min(AHEAD_MAX_S, max(AHEAD_S, 2 * self._claim_s))
        return min(GOAL_MAX, int(self._completed.at(now) * lead * self._haste))
