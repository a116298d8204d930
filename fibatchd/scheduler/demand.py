"""How many requests to claim now, and of which lanes. Pure.

Claims are for places that are free, and ahead of those that will be: as many as the goal says, when half of that is used up.
Until then a lane that is new would wait, behind a stock without any of its requests; so lanes of which nothing is here have
their share claimed at once, beyond the goal. Bodies are in memory from the claim to the answer: however many places there
are, no more is claimed than has room there.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

CLAIM_MAX = 256  # requests of one claim: so long a transaction may hold up the others
HELD_BYTES = 128 * 2**20  # of the bodies that run or are claimed ahead, of one model: more starts when some have ended

L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class Demand(Generic[L]):
    """So many requests, `ahead` of which each account may have beyond its limit, of these lanes."""

    wanted: int
    ahead: int
    lanes: Mapping[int, L]


def is_low(held: int, goal: int) -> bool:
    """Whether half are used up; until then none are claimed ahead, so that claims are not many and small."""
    return held * 2 <= goal


def demand(lanes: Mapping[int, L], here: Collection[int], *, free: int, held: int, goal: int) -> Demand[L]:
    """Return what to claim of the lanes that have something to run. `here` are those of which requests run or are held,
    `free` the places without a request, `held` how many requests are claimed ahead."""
    if is_low(held, goal):
        return Demand(free + goal - held, goal, lanes)
    fresh = {number: lane for number, lane in lanes.items() if number not in here}
    share = goal // max(1, len(lanes))
    if fresh and share and not free:
        return Demand(share * len(fresh), goal, fresh)
    return Demand(free, 0, lanes)


def fitting(sizes: Collection[int]) -> int:
    """Return how many requests fit beside those that are here, whose bodies have these sizes in bytes, if they are like
    them. One that is much larger is for the claim to stop at; see store.claims.CLAIM_BYTES."""
    held = sum(sizes)
    if held >= HELD_BYTES:
        return 0
    return max(1, (HELD_BYTES - held) * len(sizes) // held) if held else CLAIM_MAX
