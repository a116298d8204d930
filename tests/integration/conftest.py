"""Fixtures of the API tests; `api.py` says what they give."""

import pytest
import structlog
from api import serving


@pytest.fixture(autouse=True)
def quiet():
    """Keep log lines out of the tests' output; a test that looks at them captures them."""
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(*_):
    raise structlog.DropEvent


@pytest.fixture
async def api(tmp_path):
    """The API with the default configuration of the tests."""
    async with serving(tmp_path) as served:
        yield served
