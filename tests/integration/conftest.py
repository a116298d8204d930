"""Fixtures of the API tests; `api.py` says what they give."""

import pytest
from api import serving


@pytest.fixture
async def api(tmp_path):
    """The API with the default configuration of the tests."""
    async with serving(tmp_path) as served:
        yield served
