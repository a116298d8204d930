"""What is done to a stand's PostgreSQL: to the server, and to the way there."""

import contextlib
import random
import signal
from typing import Any

import databases
import psutil
import trio
from postgres_proxy import Proxy

from fibatchd.errors import StoreUnavailable
from fibatchd.store.bridge import open_bridge
from fibatchd.store.postgres_connections import Server, open_connection
from history import faults
from history.faults import Fault
from history.stand import Stand


class Database:
    """A server of the test's own, and the proxy that the daemon reaches it by."""

    def __init__(self, server: Any, proxy: Proxy) -> None:
        self.server = server
        self.proxy = proxy

    def faults(self) -> dict[str, Fault]:
        return {
            "database killed": self.killed,
            "database restarted": self.restarted,
            "both killed": self.both_killed,
            "database paused": self.paused,
            "no connections left": self.full,
            "database read-only": self.read_only,
            "database slow": self.slow,
            "connections cut": self.cut,
            "answers to commits lost": self.commits_lost,
            "network frozen": self.frozen,
        }

    async def _control(self, *arguments: str) -> None:
        await trio.to_thread.run_sync(databases.control, self.server, *arguments)

    async def killed(self, _: Stand, chance: random.Random) -> None:
        """As by a power cut, then started again: all connections are new."""
        await self._control("-m", "immediate", "stop")
        await trio.sleep(chance.uniform(0, 3))
        await self._control("restart")  # with the options it had

    async def both_killed(self, stand: Stand, chance: random.Random) -> None:
        """The daemon is killed while the database is away, and cannot start before it is back."""
        await self._control("-m", "immediate", "stop")
        await trio.sleep(chance.uniform(0, 2))
        await faults.kill(stand, chance)
        await trio.sleep(chance.uniform(0, 2))
        await self._control("restart")

    async def restarted(self, _: Stand, __: random.Random) -> None:
        await self._control("-m", "fast", "restart")

    async def paused(self, _: Stand, chance: random.Random) -> None:
        """Every process of the server is stopped."""
        pid = int((self.server.pgdata / "postmaster.pid").read_text().split()[0])
        whole = [psutil.Process(pid), *psutil.Process(pid).children()]
        for process in whole:
            _signal(process, signal.SIGSTOP)
        await trio.sleep(chance.uniform(0.3, 7))
        for process in reversed(whole):
            _signal(process, signal.SIGCONT)

    async def full(self, stand: Stand, chance: random.Random) -> None:
        """Nobody else can connect, and the connections that there are have gone."""
        async with open_bridge() as bridge:
            held: list[Any] = []
            end = trio.current_time() + chance.uniform(0.5, 4)
            while trio.current_time() < end:
                try:
                    held.append(await open_connection(bridge, Server(self.server.get_uri())))
                except StoreUnavailable:
                    await self.cut(stand, chance)
                    await trio.sleep(0.1)
            for raw in held:
                await bridge.call(raw.close(), raw.terminate)

    async def read_only(self, _: Stand, chance: random.Random) -> None:
        await self._set("default_transaction_read_only = on")
        await trio.sleep(chance.uniform(0.3, 4))
        await self._set("default_transaction_read_only = off")

    async def _set(self, setting: str) -> None:
        await databases.administer(self.server.get_uri(), f"ALTER SYSTEM SET {setting}", "SELECT pg_reload_conf()")

    async def slow(self, _: Stand, chance: random.Random) -> None:
        self.proxy.delay = chance.uniform(0.01, 0.2)
        await trio.sleep(chance.uniform(0.5, 4))
        self.proxy.delay = 0.0

    async def cut(self, _: Stand, __: random.Random) -> None:
        self.proxy.cut()

    async def commits_lost(self, _: Stand, chance: random.Random) -> None:
        """Commits one after the other get no answer, whether the server has done them or not."""
        for _ in range(chance.randint(1, 6)):
            self.proxy.lost = trio.Event()
            self.proxy.lose_commit = chance.choice(("before", "after"))
            with trio.move_on_after(2):
                await self.proxy.lost.wait()
        self.proxy.lose_commit = None

    async def frozen(self, _: Stand, chance: random.Random) -> None:
        self.proxy.freeze()
        await trio.sleep(chance.uniform(0.3, 7))
        self.proxy.thaw()


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
