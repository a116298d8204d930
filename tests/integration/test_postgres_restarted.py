"""PostgreSQL restarted in mid-use: what writers were told is stored is, and what was refused is not."""

import databases
import pytest
import trio
from postgres_names import names, opened, put

from fibatchd.errors import StoreUnavailable, StoreUncertain


class Tally:
    """What writers were told of each name they put."""

    def __init__(self):
        self.stored = set()
        self.refused = set()
        self.uncertain = set()
        self.restarted = False
        self.after = 0
        self._goal = 0
        self._reached = trio.Event()

    async def keep_writing(self, store, writer):
        number = 0
        while self.after < 200:
            number += 1
            name = f"{writer}-{number}"
            try:
                await store.write(put, name)
            except StoreUncertain:
                self.uncertain.add(name)
            except StoreUnavailable:
                self.refused.add(name)
                await trio.sleep(0.05)
            else:
                self.stored.add(name)
                self.after += self.restarted
                if len(self.stored) >= self._goal:
                    self._reached.set()

    async def more(self, count):
        """Wait until so many more are stored."""
        self._goal = len(self.stored) + count
        self._reached = trio.Event()
        await self._reached.wait()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_restarted_in_mid_use(mode):
    with databases.own_server() as server:
        tally = Tally()
        async with opened(server.get_uri()) as store:
            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    for writer in range(8):
                        nursery.start_soon(tally.keep_writing, store, writer)
                    for _ in range(3):
                        await tally.more(50)
                        await trio.to_thread.run_sync(databases.control, server, "-m", mode, "restart")
                    tally.restarted = True
            found = await store.read(names)
    assert tally.stored <= found <= tally.stored | tally.uncertain
    assert not tally.refused & found
