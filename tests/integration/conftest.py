"""Fixtures of the API tests; `api.py` says what they give."""

import databases
import pytest
import structlog
import trio
from api import serving

from fibatchd import plugin_loader
from fibatchd.store.postgres import open_postgres
from fibatchd.store.postgres_connections import Server


@pytest.fixture(autouse=True)
def quiet():
    """Keep log lines out of the tests' output; a test that looks at them captures them."""
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(*_):
    raise structlog.DropEvent


@pytest.fixture(scope="session")
def migrated_with_plugins(postgres_server):
    """The URL of a database with the core's and the plugins' tables."""

    async def migrate(url):
        async with open_postgres(Server(url), migrations=plugin_loader.load().migrations()):
            pass

    with databases.new_database(postgres_server) as url:
        trio.run(migrate, url)
        yield url


@pytest.fixture
def plugins_postgres(migrated_with_plugins):
    yield migrated_with_plugins
    trio.run(databases.wipe, migrated_with_plugins)


@pytest.fixture(params=["sqlite", "postgresql"])
def each_url(request):
    """The URL of an empty store with the plugins' tables, by each driver."""
    return "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("plugins_postgres")


@pytest.fixture
async def api(tmp_path, each_url):
    """The API with the default configuration of the tests, on each store."""
    async with serving(tmp_path, store_url=each_url) as served:
        yield served
