"""When a failed attempt is tried again."""

import dataclasses

import pytest

from fibatchd.config import Batches
from fibatchd.scheduler.retry import delay, is_last

SETTINGS = Batches()


@pytest.mark.parametrize(("attempt", "most"), [(1, 2), (2, 4), (3, 8), (7, 128), (8, 256), (9, 300), (1000, 300)])
def test_backoff_doubles_up_to_its_cap_with_full_jitter(attempt, most):
    assert delay(attempt, None, SETTINGS, lambda: 1.0) == most
    assert delay(attempt, None, SETTINGS, lambda: 0.0) == 0
    assert delay(attempt, None, SETTINGS, lambda: 0.5) == most / 2


def test_retry_after_is_the_least_wait():
    assert delay(1, 30.0, SETTINGS, lambda: 0.9) == 30
    assert delay(6, 1.0, SETTINGS, lambda: 1.0) == 64


def test_retry_after_is_honoured_up_to_its_cap():
    assert delay(1, 86_400.0, SETTINGS, lambda: 0.0) == 600


def test_settings_count():
    fast = dataclasses.replace(SETTINGS, retry_base_s=0.05, retry_factor=3, retry_cap_s=1)
    assert delay(2, None, fast, lambda: 1.0) == pytest.approx(0.15)
    assert delay(9, None, fast, lambda: 1.0) == 1


def test_eight_attempts_in_all():
    assert [is_last(attempt, SETTINGS) for attempt in (1, 7, 8, 9)] == [False, False, True, True]
