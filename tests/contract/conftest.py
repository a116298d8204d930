"""One store for each test, by each driver: the same tests hold for all of them."""

import pytest

from fibatchd.store import migrate
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


@pytest.fixture(params=["sqlite"])
async def store(request, tmp_path, clock):
    opened = await open_sqlite(tmp_path / "fibatchd.db", migrations=migrate.core(), exclusive=True, clock=clock)
    yield opened
    await opened.aclose()
