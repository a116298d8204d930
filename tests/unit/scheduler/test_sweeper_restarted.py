"""The housekeeping after a crash of its own: what creates are staging at that moment stays."""

from types import SimpleNamespace

import trio

from fibatchd import config
from fibatchd.scheduler.sweeper import Sweeper
from fibatchd.store import sweeps


class Store:
    """Has nothing, and notes how stagings are looked for."""

    shared = False

    def __init__(self):
        self.asked = []

    async def read(self, script, *args, **kwargs):
        await trio.lowlevel.checkpoint()
        if script is sweeps.stale_staging:
            self.asked.append(kwargs.get("all_of_them", False))
        return sweeps.Due([], [], []) if script is sweeps.due else []

    async def write(self, *_):
        await trio.lowlevel.checkpoint()
        return 0


async def test_all_that_is_staged_is_given_up_at_the_first_start_only(autojump_clock):
    store = Store()
    sweeper = Sweeper(SimpleNamespace(store=store, policy=None, config=config.parse("")))
    for _ in range(3):
        with trio.move_on_after(0.5):
            await sweeper.run()
    assert store.asked == [True, False, False, False]
