"""A server with the console: `site` on the embedded store, `each_site` on both."""

import pytest
from site_console import open_site


@pytest.fixture
async def site(tmp_path):
    async with open_site(tmp_path) as opened:
        yield opened


@pytest.fixture
async def each_site(each_url, tmp_path):
    async with open_site(tmp_path, each_url) as opened:
        yield opened
