"""What is done to a stand while it works. Every fault mends itself in the end, and is written down with its time."""

import random
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import apsw
import trio

from history.launch import Disk
from history.stand import Stand

Fault = Callable[[Stand, random.Random], Awaitable[None]]


async def kill(stand: Stand, chance: random.Random) -> None:
    """SIGKILL, and a start after a moment."""
    stand.daemon.signal(signal.SIGKILL)
    await _again(stand, chance)


async def kill_and_kill(stand: Stand, chance: random.Random) -> None:
    """SIGKILL, and another one while it starts."""
    for _ in range(2):
        await kill(stand, chance)
        await trio.sleep(chance.uniform(0.1, 1.0))


async def terminate(stand: Stand, chance: random.Random) -> None:
    """SIGTERM, up to five of them, which is a drain or an end at once."""
    for _ in range(chance.randint(1, 5)):
        stand.daemon.signal(signal.SIGTERM)
        await trio.sleep(chance.uniform(0, 0.05))
    await _again(stand, chance)


async def stop(stand: Stand, chance: random.Random) -> None:
    """SIGSTOP, and SIGCONT later."""
    stand.daemon.signal(signal.SIGSTOP)
    await trio.sleep(chance.uniform(0.3, 4))
    stand.daemon.signal(signal.SIGCONT)


async def _again(stand: Stand, chance: random.Random) -> None:
    await trio.to_thread.run_sync(stand.daemon.process.wait, 30)
    await trio.sleep(chance.uniform(0, 0.5))
    stand.start_again()


def _disk(what: Disk) -> Fault:
    async def fault(stand: Stand, chance: random.Random) -> None:
        stand.switches.disk = what
        await trio.sleep(chance.uniform(0.3, 3))
        stand.switches.disk = Disk.FINE

    return fault


async def spoilt_and_killed(stand: Stand, chance: random.Random) -> None:
    """The disk refuses, and the daemon is killed meanwhile."""
    stand.switches.disk = chance.choice((Disk.FULL, Disk.SYNC_FAILS, Disk.WRITE_FAILS))
    await trio.sleep(chance.uniform(0.1, 1))
    stand.daemon.signal(signal.SIGKILL)
    stand.switches.disk = Disk.FINE
    await _again(stand, chance)


async def locked(stand: Stand, chance: random.Random) -> None:
    """Another process keeps the file locked, longer than is waited for a lock."""
    connection = apsw.Connection(str(stand.folder / "fibatchd.db"), vfs="unix")
    connection.set_busy_timeout(10_000)
    await trio.to_thread.run_sync(connection.execute, "BEGIN IMMEDIATE")
    await trio.sleep(chance.uniform(0.5, 7))
    connection.execute("ROLLBACK")
    connection.close()


async def clock(stand: Stand, chance: random.Random) -> None:
    """The clock is stepped by hours, one way or the other, and back."""
    stand.switches.clock_off_s = chance.choice((-1, 1)) * chance.uniform(600, 36_000)
    await trio.sleep(chance.uniform(0.5, 3))
    stand.switches.clock_off_s = 0.0


DAEMON: dict[str, Fault] = {"kill": kill, "kill_and_kill": kill_and_kill, "terminate": terminate, "stop": stop}
SQLITE: dict[str, Fault] = {
    "disk full": _disk(Disk.FULL),
    "disk read-only": _disk(Disk.READ_ONLY),
    "sync fails": _disk(Disk.SYNC_FAILS),
    "write fails": _disk(Disk.WRITE_FAILS),
    "disk slow": _disk(Disk.SLOW),
    "spoilt and killed": spoilt_and_killed,
    "locked": locked,
}
CLOCK: dict[str, Fault] = {"clock": clock}


async def inject(
    stand: Stand, faults: dict[str, Any], chance: random.Random, seconds: float, *, pause: float = 1.5
) -> None:
    """One fault after the other, each of them once before any comes again, for so long. The daemon takes work before each of
    them, and in the end."""
    until = trio.current_time() + seconds
    left: list[str] = []
    while trio.current_time() < until:
        left = left or chance.sample(sorted(faults), len(faults))
        name = left.pop()
        began = time.monotonic()
        await faults[name](stand, chance)
        stand.history.note("fault", at=began, name=name, ended=time.monotonic())
        # A stand that is down most of the time would show little: what fails must fail while there is work.
        await trio.to_thread.run_sync(stand.wait_ready)
        await trio.sleep(chance.uniform(0.2, 2 * pause))
