"""The API with Message Batches switched on."""

import pytest
from api import serving
from messages_api import EXTRA


@pytest.fixture
async def api(tmp_path):
    async with serving(tmp_path, extra=EXTRA) as served:
        yield served


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request):
    """An empty database of each kind."""
    return "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("empty_postgres")


@pytest.fixture
async def stored(store_url, tmp_path):
    """The same API on each store."""
    async with serving(tmp_path, extra=EXTRA, store_url=store_url) as served:
        yield served
