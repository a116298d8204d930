"""Fixtures of the tests of running daemons."""

import pytest
from daemons import closing_all


@pytest.fixture
def processes():
    """A list of child processes; they are closed at the end."""
    with closing_all() as found:
        yield found
