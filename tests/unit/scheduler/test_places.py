"""Yielding to interactive traffic: at once, and back after a second."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fibatchd.config import CHAT_COMPLETIONS, Model, Upstream
from fibatchd.inference.load import room_for
from fibatchd.scheduler.places import SETTLE_S, Room


def model(**more):
    upstream = Upstream(url="http://x/v1", endpoints=(CHAT_COMPLETIONS,), model="m")
    return Model(id="m", upstreams=(upstream,), **more)


def test_without_a_capacity_nothing_is_held_back():
    assert room_for(model(), 1000) == math.inf


def test_interactive_requests_and_the_reserve_take_room():
    assert room_for(model(capacity=8), 3) == 5
    assert room_for(model(capacity=8, reserve=2), 3) == 3


def test_room_is_never_negative():
    assert room_for(model(capacity=8), 100) == 0


def test_less_room_counts_at_once():
    room = Room()
    room.note(8, 0.0)
    room.note(0, 10.0)
    assert room.least(10.0) == 0


def test_more_room_counts_after_a_second():
    room = Room()
    room.note(0, 0.0)
    room.note(8, 10.0)
    assert room.least(10.9) == 0
    assert room.rises_at(10.9) == 11.0
    assert room.least(11.0) == 8
    assert room.rises_at(11.0) == math.inf


def test_a_short_gap_is_no_room():
    room = Room()
    for second in range(10):
        room.note(8, second)
        room.note(2, second + 0.5)
    assert room.least(9.9) == 2


def test_a_value_counts_for_a_second_after_it_went_out_of_force():
    room = Room()
    room.note(3, 0.0)
    room.note(5, 100.0)  # 3 was in force until now
    assert room.least(100.99) == 3
    assert room.least(101.0) == 5


@given(st.lists(st.tuples(st.floats(0, 0.7), st.integers(0, 9)), min_size=1, max_size=30), st.floats(0, 2))
def test_it_is_the_least_of_the_last_second(changes, wait):
    room, now, history = Room(), 0.0, []
    for pause, value in changes:
        now += pause
        room.note(value, now)
        history.append((now, value))
    now += wait
    ends = [since for since, _ in history[1:]] + [math.inf]
    in_window = [value for (_, value), end in zip(history, ends, strict=True) if end + SETTLE_S > now]
    assert room.least(now) == min(in_window)
