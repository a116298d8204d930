"""What is claimed ahead: whose turn it is among it, and how much of it there is to be."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from fibatchd.scheduler.stock import GOAL_MAX, Goal, Stock


@dataclass(frozen=True)
class Taken:
    account_id: str
    lane: int
    number: int

    @property
    def batch_id(self):
        return f"batch_{self.lane}"


def anybody(_member):
    return True


def emptied(stock):
    return list(iter(lambda: stock.take(anybody), None))


def test_what_is_claimed_later_does_not_wait_for_all_that_was_claimed_before():
    stock = Stock()
    stock.add([Taken("a", 1, number) for number in range(4)])
    stock.add([Taken("b", 2, 4), Taken("a", 3, 5), Taken("b", 2, 6), Taken("a", 1, 7)])
    assert [taken.number for taken in emptied(stock)] == [0, 4, 5, 6, 1, 2, 3, 7]


def test_who_may_not_start_holds_nobody_up_and_keeps_what_it_has():
    stock = Stock()
    stock.add([Taken("a", 1, 0), Taken("b", 2, 1), Taken("a", 1, 2), Taken("b", 2, 3)])
    assert [stock.take(lambda taken: taken.account_id == "b").number for _ in range(2)] == [1, 3]
    assert stock.take(lambda taken: taken.account_id == "b") is None
    assert (len(stock), stock.of("a"), stock.of("b")) == (2, 2, 0)
    assert [taken.number for taken in emptied(stock)] == [0, 2]


def test_a_batch_that_is_closed_is_taken_out():
    stock = Stock()
    stock.add([Taken("a", 1, 0), Taken("a", 2, 1), Taken("a", 1, 2)])
    assert [taken.number for taken in stock.remove(lambda taken: taken.batch_id == "batch_1")] == [0, 2]
    assert [taken.number for taken in stock.clear()] == [1]
    assert not stock


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3))), st.integers(0, 9))
def test_all_of_it_comes_out_each_lane_in_its_order_and_accounts_in_turn(owners, split):
    put_in = [Taken(account, lane, number) for number, (account, lane) in enumerate(owners)]
    stock = Stock()
    stock.add(put_in[:split])
    stock.add(put_in[split:])
    assert (len(stock), set(stock)) == (len(put_in), set(put_in))
    found = emptied(stock)
    assert sorted(found, key=lambda taken: taken.number) == put_in
    for account, lane in set(owners):
        of_lane = [taken.number for taken in found if (taken.account_id, taken.lane) == (account, lane)]
        assert of_lane == sorted(of_lane)
    for position in range(1, len(found)):
        left = {taken.account_id for taken in found[position - 1 :]}
        assert len(left) == 1 or found[position].account_id != found[position - 1].account_id


def at_rate(per_second, seconds=5):
    goal = Goal()
    for number in range(per_second * seconds):
        goal.note_completed(number / per_second)
    return goal, float(seconds)


def test_nothing_is_held_for_a_slow_model():
    goal, now = at_rate(20)
    assert goal.at(now) == 0


def test_what_is_held_lasts_for_two_claims():
    goal, now = at_rate(1000)
    assert 15 <= goal.at(now) <= 20
    for _ in range(50):
        goal.note_claim(0.04, ran_dry=False)
    assert 75 <= goal.at(now) <= 80
    for _ in range(50):
        goal.note_claim(5, ran_dry=False)
    assert goal.at(now) == GOAL_MAX


def test_more_is_held_when_places_stood_empty_and_less_again_when_they_do_not():
    goal, now = at_rate(1000)
    at_first = goal.at(now)
    for _ in range(2):
        goal.note_claim(0, ran_dry=True)
    assert goal.at(now) >= 4 * at_first
    for _ in range(50):
        goal.note_claim(0, ran_dry=False)
    assert goal.at(now) == at_first
