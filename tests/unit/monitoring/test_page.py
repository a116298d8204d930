"""The metrics page's listener, and what it knows of the store."""

import socket

import httpx2
import pytest
import structlog
import trio
import trio.testing

from fibatchd.errors import StoreUnavailable
from fibatchd.metrics import Metric, Page
from fibatchd.monitoring import page as page_module
from fibatchd.monitoring.page import MetricsPage
from fibatchd.monitoring.standing import ANSWER_S, KEEP_S, KnownStanding
from fibatchd.store.standing import Standing

STANDING = Standing({"in_progress": 1}, {}, 0, {})


@pytest.fixture
def clock():
    """Jumps when nothing has happened for a while: sockets need real time, if little."""
    return trio.testing.MockClock(autojump_threshold=0.05)


def page(address, refreshed=lambda: None):
    async def refresh():
        await trio.lowlevel.checkpoint()
        refreshed()

    shown = Page(lambda: [Metric("fibatchd_x", "X.", "gauge", (), lambda: {(): 7})])
    return MetricsPage(address, shown, refresh, [])


async def test_an_address_in_use_is_tried_again(clock):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        service = page(f"127.0.0.1:{port}")
        with structlog.testing.capture_logs() as lines:
            async with trio.open_nursery() as nursery:
                await nursery.start(service.run)
                await trio.sleep(3.5 * page_module.AGAIN_S)
                assert [line["event"] for line in lines] == ["THERE IS NO METRICS PAGE"], "told once"
                other.close()
                await trio.sleep(page_module.AGAIN_S)
                async with httpx2.AsyncClient(trust_env=False) as http:
                    answer = await http.get(f"http://127.0.0.1:{port}/metrics")
                assert "fibatchd_x 7.0" in answer.text
                nursery.cancel_scope.cancel()
    assert lines[0]["log_level"] == "error"
    assert lines[-1] == {"event": "metrics", "listen": [f"http://127.0.0.1:{port}/metrics"], "log_level": "info"}


async def test_each_page_is_refreshed(clock):
    refreshed = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(page(f"127.0.0.1:{port}", lambda: refreshed.append(1)).run)
        await trio.sleep(1)
        async with httpx2.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}") as http:
            await http.get("/metrics")
            await http.get("/metrics")
            assert (await http.get("/other")).status_code == 404
        nursery.cancel_scope.cancel()
    assert len(refreshed) == 2


class Store:
    def __init__(self):
        self.asked = 0
        self.mood = "answers"

    async def read(self, _script):
        self.asked += 1
        await trio.lowlevel.checkpoint()
        if self.mood == "fails":
            raise StoreUnavailable("gone")
        if self.mood == "silent":
            await trio.sleep_forever()
        return STANDING


async def test_the_store_is_asked_now_and_then(autojump_clock):
    store = Store()
    known = KnownStanding(store)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(known.refresh)
    assert (store.asked, known.now) == (1, STANDING)
    await trio.sleep(KEEP_S)
    await known.refresh()
    assert store.asked == 2


@pytest.mark.parametrize("mood", ["fails", "silent"])
async def test_a_store_that_is_away_is_not_known(autojump_clock, mood):
    store = Store()
    known = KnownStanding(store)
    await known.refresh()
    store.mood = mood
    await trio.sleep(KEEP_S)
    began = trio.current_time()
    await known.refresh()
    assert trio.current_time() - began <= ANSWER_S
    assert known.now is None
    store.mood = "answers"
    await trio.sleep(KEEP_S)
    await known.refresh()
    assert known.now == STANDING
