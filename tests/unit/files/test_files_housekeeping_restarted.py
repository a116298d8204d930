"""The housekeeping of files after a crash of its own: what is being uploaded at that moment stays."""

from types import SimpleNamespace

import trio
from fibatchd_plugins.files.housekeeping import Housekeeping, abandon_staged


class Store:
    """Has nothing, and counts how often all that is staged is given up."""

    shared = False

    def __init__(self):
        self.given_up = 0

    async def read(self, *_):
        await trio.lowlevel.checkpoint()
        return []

    async def write(self, script, *_):
        await trio.lowlevel.checkpoint()
        self.given_up += script is abandon_staged


async def test_all_that_is_staged_is_given_up_at_the_first_start_only(autojump_clock):
    store = Store()
    housekeeping = Housekeeping(SimpleNamespace(store=store))
    for _ in range(3):
        with trio.move_on_after(0.5):
            await housekeeping.run()
    assert store.given_up == 1
