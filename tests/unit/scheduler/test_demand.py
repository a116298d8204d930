"""How many requests to claim now, and of which lanes."""

from fibatchd.scheduler.demand import CLAIM_MAX, HELD_BYTES, Demand, demand, fitting

OLD, NEW = {1: "old"}, {2: "new"}


def test_free_places_and_what_is_held_ahead_are_claimed_together():
    assert demand(OLD, {1}, free=3, held=4, goal=10) == Demand(9, 10, OLD)


def test_half_is_used_up_before_more_is_claimed_ahead():
    assert demand(OLD, {1}, free=0, held=6, goal=10) == Demand(0, 0, OLD)
    assert demand(OLD, {1}, free=0, held=5, goal=10) == Demand(5, 10, OLD)


def test_a_new_lane_has_its_share_at_once():
    assert demand(OLD | NEW, {1}, free=0, held=9, goal=10) == Demand(5, 10, NEW)
    assert demand(OLD | NEW, {1, 2}, free=0, held=9, goal=10) == Demand(0, 0, OLD | NEW)


def test_free_places_are_for_all_lanes():
    assert demand(OLD | NEW, {1}, free=2, held=9, goal=10) == Demand(2, 0, OLD | NEW)


def test_nothing_is_held_ahead_for_a_slow_model():
    assert demand(OLD | NEW, {1}, free=0, held=0, goal=0) == Demand(0, 0, OLD | NEW)
    assert demand(OLD | NEW, {1}, free=2, held=0, goal=0) == Demand(2, 0, OLD | NEW)


def test_no_more_is_claimed_than_has_room_in_memory():
    assert fitting([]) == fitting([0]) == CLAIM_MAX
    assert fitting([HELD_BYTES // 8] * 2) == 6
    assert fitting([HELD_BYTES - 1]) == fitting([HELD_BYTES // 2, HELD_BYTES // 4]) == 1
    assert fitting([HELD_BYTES]) == fitting([HELD_BYTES, 1]) == 0
