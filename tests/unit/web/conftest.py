"""The clock of the front end's tests."""

import pytest
from trio.testing import MockClock


@pytest.fixture
def autojump_clock() -> MockClock:
    """pytest-trio's clock, a little less eager: on a busy machine the kernel may hold loopback data for a moment, in which
    every task is blocked though nothing is over."""
    return MockClock(autojump_threshold=0.02)
