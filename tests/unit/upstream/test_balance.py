"""Which upstream is tried: least loaded, not the paused, not the broken, probed in time, at its pace."""

import math

import pytest

from fibatchd.config import CHAT_COMPLETIONS, Upstream
from fibatchd.upstream.balance import Replica, all_out, choose, may_start


def replica(**more):
    return Replica(Upstream(url="http://x/v1", endpoints=(CHAT_COMPLETIONS,), model="m", **more))


def test_the_least_loaded_is_chosen():
    busy, idle = replica(), replica()
    busy.begin(0, 0.0)
    assert choose([busy, idle], 0.0) is idle


def test_weights_share_the_load():
    small, large = replica(weight=1), replica(weight=3)
    for _ in range(40):
        chosen = choose([small, large], 0.0)
        assert chosen is not None
        chosen.begin(0, 0.0)
    assert (small.in_flight, large.in_flight) == (10, 30)


def test_out_at_the_first_connection_that_cannot_be_made():
    only = replica()
    only.failed(0.0, at_once=True)
    assert only.out
    assert choose([only], 0.5) is None
    assert all_out([only])


def test_out_after_five_lost_connections_in_a_row():
    only = replica()
    for _ in range(4):
        only.failed(0.0, at_once=False)
    assert not only.out
    only.failed(0.0, at_once=False)
    assert only.out


def test_an_answer_between_lost_connections_starts_the_count_anew():
    only = replica()
    for _ in range(3):
        for _ in range(4):
            only.failed(0.0, at_once=False)
        only.answered()
    assert not only.out


def test_one_probe_after_a_second_and_then_at_doubling_waits_up_to_thirty():
    only, now, waits = replica(), 0.0, []
    only.failed(now, at_once=True)
    for _ in range(7):
        waits.append(only.ready_at() - now)
        now = only.ready_at()
        assert may_start([only], now)[0] == 1
        number = only.begin(0, now)
        assert choose([only], now + 1000) is None, "one probe at a time"
        only.failed(now, at_once=True, number=number)
        only.end(number, 0, now)
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_a_probe_that_is_answered_takes_it_back():
    only = replica()
    only.failed(0.0, at_once=True)
    only.begin(0, 1.0)
    only.answered()
    assert not only.out
    assert may_start([only], 1.0) == (math.inf, 1.0)


def test_a_probe_that_we_cut_short_frees_the_next_one():
    only = replica()
    only.failed(0.0, at_once=True)
    number = only.begin(0, 1.0)
    only.end(number, 0, 1.5)
    assert choose([only], 1.5) is only


def test_older_requests_that_end_while_it_is_probed_let_no_second_probe_go():
    only = replica()
    older = [only.begin(0, 0.0) for _ in range(3)]
    only.failed(0.0, at_once=True)
    probe = only.begin(0, 1.0)
    only.end(older[0], 0, 1.1)
    assert choose([only], 1.2) is None
    only.failed(1.3, at_once=False, number=older[1])
    only.end(older[1], 0, 1.3)
    assert choose([only], 1.4) is None
    only.failed(2.0, at_once=True, number=probe)
    only.end(probe, 0, 2.0)
    assert only.ready_at() == 4.0
    only.answered()  # the last of the older ones
    assert choose([only], 2.1) is only


def test_a_replica_to_be_probed_goes_first_while_others_work():
    out, fine = replica(), replica()
    out.failed(0.0, at_once=True)
    assert choose([out, fine], 0.5) is fine
    assert choose([out, fine], 1.0) is out


def test_a_late_failure_of_an_older_request_is_no_failed_probe():
    only = replica()
    only.failed(0.0, at_once=True)
    only.failed(0.2, at_once=True)
    assert only.ready_at() == 1.0


def test_paused_until_its_time():
    only = replica()
    only.pause(30.0)
    only.pause(10.0)
    assert choose([only], 29.9) is None
    assert choose([only], 30.0) is only
    assert may_start([only], 5.0) == (0, 30.0)
    assert not all_out([only])


def test_requests_per_minute_are_spread_evenly():
    only, sent, now = replica(requests_per_minute=120), 0, 0.0
    while now < 60:
        while choose([only], now):
            only.begin(0, now)
            sent += 1
        now += 0.01
    assert sent == pytest.approx(120, abs=3)
    assert may_start([only], now)[0] in (0, 1)


def test_what_a_pace_leaves_is_how_many_may_start():
    only = replica(requests_per_minute=600)
    only.begin(0, 0.0)
    assert may_start([only], 0.0)[0] == 10
    assert may_start([replica()], 0.0)[0] == math.inf


def test_tokens_per_minute_hold_requests_back():
    only = replica(tokens_per_minute=6000)
    number = only.begin(200, 0.0)
    assert choose([only], 0.5) is None
    only.end(number, 100, 0.5)  # it used 300
    assert choose([only], 1.9) is None
    assert choose([only], 2.1) is only


def test_no_replica_at_all():
    assert choose([], 0.0) is None
    assert may_start([], 0.0) == (0, math.inf)
