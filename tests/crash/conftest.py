"""Real daemons that are killed, on both stores."""

import daemons
import pytest


@pytest.fixture
def processes():
    with daemons.closing_all() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request):
    """The storage URL of a fresh database, by each driver."""
    if request.param == "sqlite":
        return "sqlite:fibatchd.db"
    return request.getfixturevalue("empty_postgres")
