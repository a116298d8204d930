"""One store for each test, by each driver: the same tests hold for all of them."""

import pytest
from plans import NOW, Database

from fibatchd.store import migrate
from fibatchd.store.opening import open_store
from fibatchd.store.sqlite import open_sqlite


class Clock:
    """The store's time, moved by the test."""

    def __init__(self) -> None:
        self.now = 1_795_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request):
    """Where a new and empty store is."""
    return "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
async def store(store_url, tmp_path, clock):
    async with open_store(store_url, tmp_path, migrations=migrate.core(), exclusive=True, clock=clock) as opened:
        yield opened


@pytest.fixture
async def database(tmp_path):
    """SQLite's database, which explains what it does."""
    opened = await open_sqlite(tmp_path / "plans.db", migrations=migrate.core(), exclusive=True, clock=lambda: NOW)
    await opened.aclose()
    database = Database(tmp_path / "plans.db")
    yield database
    database.connection.close()
