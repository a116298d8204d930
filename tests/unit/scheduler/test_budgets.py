"""What accounts may still spend between two looks."""

import pytest

from fibatchd import config
from fibatchd.domain.accounts import ACTIVE, Account
from fibatchd.scheduler.budgets import Budgets

CONFIG = """
[tiers.pro]
daily_quota_usd = "0.000000000010"
[[models]]
id = "m"
[[models.upstreams]]
url = "echo:"
"""


@pytest.fixture
def budgets():
    settings = config.parse(CONFIG)
    return Budgets(lambda: settings)


def account(name="ada", tier="pro", quota=None, *, own=False):
    return Account(name, name, tier, ACTIVE, quota, own, 0.0)


@pytest.mark.parametrize(
    ("spent", "unwritten", "daemons", "left"),
    [
        (0, 0, 1, 10),
        (3, 2, 1, 5),
        (3, 2, 2, 3),
        (9, 0, 3, 1),
        (10, 0, 1, 0),
        (10, 0, 4, 0),
        (12, 0, 1, 0),
        (5, 9, 2, 0),
    ],
)
def test_so_much_is_left_for_each_daemon(budgets, spent, unwritten, daemons, left):
    budgets.note(account(), spent, {"ada": unwritten, "bob": 7}, daemons)
    for _ in range(left):
        assert not budgets.is_used_up("ada")
        budgets.spend("ada", None)
        budgets.spend("bob", 1)
        budgets.spend("ada", 1)
    assert budgets.is_used_up("ada")
    assert not budgets.is_used_up("bob")


def test_no_quota_is_never_used_up(budgets):
    budgets.note(account(), 10, {}, 1)
    assert budgets.is_used_up("ada")
    budgets.note(account(own=True), 10, {}, 1)
    budgets.spend("ada", 10)
    assert not budgets.is_used_up("ada")


def test_a_new_day_forgets_everybody_and_one_that_is_over_nobody(budgets):
    budgets.renew("2026-11-29")
    budgets.note(account(), 10, {}, 1)
    for day in ("2026-11-29", "2026-11-28"):
        budgets.renew(day)
        assert budgets.is_used_up("ada")
    budgets.renew("2026-11-30")
    assert not budgets.is_used_up("ada")
    budgets.note(account(), 10, {}, 1)
    assert budgets.is_used_up("ada")
