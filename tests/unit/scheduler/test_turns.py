"""Whose turn it is: accounts take turns, and inside an account its batches do."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from fibatchd.scheduler.turns import Turns


@dataclass(frozen=True)
class Lane:
    lane: int
    queued: int
    batch_id: str = ""


def by_account(**queued: list[int]) -> dict[str, list[Lane]]:
    number = iter(range(1, 1000))
    return {account: [Lane(next(number), count) for count in counts] for account, counts in queued.items()}


def no_limit(_account: str) -> int:
    return 10**9


def test_places_are_shared_evenly_between_accounts():
    assert Turns().pick(by_account(a=[1000], b=[1000]), 8, no_limit) == [(1, 4), (2, 4)]


def test_many_batches_gain_an_account_nothing():
    taken = dict(Turns().pick(by_account(a=[50, 50, 50], b=[50]), 12, no_limit))
    assert taken == {1: 2, 2: 2, 3: 2, 4: 6}


def test_inside_an_account_batches_take_turns():
    assert dict(Turns().pick(by_account(a=[50_000, 20]), 10, no_limit)) == {1: 5, 2: 5}


def test_what_one_cannot_use_others_get():
    assert dict(Turns().pick(by_account(a=[2], b=[100]), 10, no_limit)) == {1: 2, 2: 8}


def test_an_account_takes_no_more_than_its_room():
    assert dict(Turns().pick(by_account(a=[100], b=[100]), 10, {"a": 3, "b": 100}.__getitem__)) == {1: 3, 2: 7}


def test_an_account_without_room_gets_nothing():
    assert Turns().pick(by_account(a=[100]), 10, lambda _: 0) == []


def test_single_places_go_around():
    turns = Turns()
    lanes = by_account(a=[100, 100], b=[100])
    order = [turns.pick(lanes, 1, no_limit)[0][0] for _ in range(8)]
    assert order == [1, 3, 2, 3, 1, 3, 2, 3]


def test_a_newcomer_is_served_in_the_next_round():
    turns = Turns()
    for _ in range(5):
        turns.pick(by_account(a=[100]), 1, no_limit)
    both = by_account(a=[100], b=[20])
    first, second = turns.pick(both, 1, no_limit), turns.pick(both, 1, no_limit)
    assert {first[0][0], second[0][0]} == {1, 2}


@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(0, 20), min_size=1, max_size=4), max_size=4),
    st.integers(0, 60),
    st.integers(0, 30),
)
def test_all_places_are_given_while_anybody_can_use_them(queued, free, room):
    lanes = by_account(**queued)
    taken = dict(Turns().pick(lanes, free, lambda _: room))
    counts = {lane.lane: lane.queued for found in lanes.values() for lane in found}
    assert all(0 < count <= counts[lane] for lane, count in taken.items())
    usable = sum(min(room, sum(lane.queued for lane in found)) for found in lanes.values())
    assert sum(taken.values()) == min(free, usable)
    shares = [sum(taken.get(lane.lane, 0) for lane in found) for found in lanes.values()]
    for share, found in zip(shares, lanes.values(), strict=True):
        could_take_more = share < min(room, sum(lane.queued for lane in found))
        assert not could_take_more or share >= max(shares) - 1
