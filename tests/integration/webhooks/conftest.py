"""A server with webhooks: `site` on the embedded store, `each_site` on both; a receiver."""

import pytest
from api import Clock
from site_webhooks import open_site, receiving

from fibatchd import plugin_loader
from fibatchd.store.opening import open_store


@pytest.fixture
async def site(tmp_path):
    async with open_site(tmp_path) as opened:
        yield opened


@pytest.fixture
async def each_site(each_url, tmp_path):
    async with open_site(tmp_path, each_url) as opened:
        yield opened


@pytest.fixture
async def receiver():
    async with receiving() as opened:
        yield opened


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def store(each_url, tmp_path, clock):
    """A store with the plugins' tables, by each driver, and no server on it."""
    migrations = plugin_loader.load().migrations()
    async with open_store(each_url, tmp_path, migrations=migrations, exclusive=True, clock=clock) as opened:
        yield opened
