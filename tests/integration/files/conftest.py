"""A server with file batches: `site` on the embedded store, `each_site` on both."""

import pytest
import trio
from site_files import open_site

from fibatchd import plugin_loader


@pytest.fixture(scope="session")
def migrated_files(postgres_server):
    """The URL of a database with the plugins' tables."""
    import databases

    from fibatchd.store.postgres import open_postgres
    from fibatchd.store.postgres_connections import Server

    async def migrate(url):
        async with open_postgres(Server(url), migrations=plugin_loader.load().migrations()):
            pass

    with databases.new_database(postgres_server) as url:
        trio.run(migrate, url)
        yield url


@pytest.fixture
def files_postgres(migrated_files):
    import databases

    yield migrated_files
    trio.run(databases.wipe, migrated_files)


@pytest.fixture
async def site(tmp_path):
    async with open_site(tmp_path) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def each_url(request):
    return "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("files_postgres")


@pytest.fixture
async def each_site(each_url, tmp_path):
    async with open_site(tmp_path, each_url) as opened:
        yield opened
