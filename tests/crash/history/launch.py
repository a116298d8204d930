"""`fibatchd` on a disk and a clock that a test may spoil while it runs, with leases that last 5 s instead of 15.

    FIBATCHD_SWITCHES=FILE python launch.py serve --config …

The disk is a VFS of SQLite's own kind, under the whole driver; the clock is `time.time` itself, also for a PostgreSQL, whose
own clock is the machine's. FILE is shared memory: see `Switches`. `FIBATCHD_LIMITS` may hold resource limits, such as
`NOFILE=40 AS=600000000`.
"""

import mmap
import os
import resource
import struct
import sys
import time
from enum import IntEnum
from pathlib import Path
from typing import Any


class Disk(IntEnum):
    """What the disk does."""

    FINE = 0
    FULL = 1
    READ_ONLY = 2
    SYNC_FAILS = 3
    WRITE_FAILS = 4
    SLOW = 5


SLOW_S = 0.05
LEASE_S = 5.0


class Switches:
    """Two values in a shared file: what the disk does, and by how many seconds the clock is wrong."""

    _LAYOUT = struct.Struct("<qd")

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(bytes(self._LAYOUT.size))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), self._LAYOUT.size)

    @property
    def disk(self) -> int:
        return int(self._LAYOUT.unpack(self._memory[:])[0])

    @disk.setter
    def disk(self, value: int) -> None:
        self._memory[:] = self._LAYOUT.pack(value, self.clock_off_s)

    @property
    def clock_off_s(self) -> float:
        return float(self._LAYOUT.unpack(self._memory[:])[1])

    @clock_off_s.setter
    def clock_off_s(self, value: float) -> None:
        self._memory[:] = self._LAYOUT.pack(self.disk, value)


def spoil_disk(switches: Switches) -> Any:
    """Put the VFS under SQLite; it lasts for as long as what is returned is kept."""
    import apsw

    below = apsw.vfs_names()[0]

    class File(apsw.VFSFile):  # type: ignore[misc]
        def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's names
            match switches.disk:
                case Disk.FULL:
                    raise apsw.FullError("a full disk")
                case Disk.READ_ONLY:
                    raise apsw.ReadOnlyError("a read-only file system")
                case Disk.WRITE_FAILS:
                    raise apsw.IOError("a write that failed")
            super().xWrite(data, offset)

        def xSync(self, flags: int) -> None:  # noqa: N802
            match switches.disk:
                case Disk.SYNC_FAILS:
                    raise apsw.IOError("a sync that failed")
                case Disk.SLOW:
                    time.sleep(SLOW_S)
            super().xSync(flags)

    class Vfs(apsw.VFS):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("spoilt", below, makedefault=True)

        def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
            return File(below, name, flags)

    return Vfs()


def spoil_clock(switches: Switches) -> None:
    """Let this process see a time that is off."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + switches.clock_off_s
    time.time_ns = lambda: right_ns() + round(switches.clock_off_s * 1e9)

    from fibatchd.store import postgres

    class Stepped(postgres.PostgresStore):
        def __init__(self, bridge: Any, server: Any, pool_size: int, clock: Any) -> None:
            super().__init__(bridge, server, pool_size, clock or time.time)

    postgres.PostgresStore = Stepped  # type: ignore[misc]


def shorten_leases() -> None:
    from fibatchd.scheduler import lease
    from fibatchd.store import leases

    leases.LEASE_S = LEASE_S
    lease.GRACE_S = LEASE_S / 3
    lease.TAKE_OVER_S = LEASE_S / 5


def limit(text: str) -> None:
    for item in text.split():
        name, _, value = item.partition("=")
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (int(value), int(value)))


if __name__ == "__main__":
    limit(os.environ.get("FIBATCHD_LIMITS", ""))
    kept = None
    if file := os.environ.get("FIBATCHD_SWITCHES"):
        shared = Switches(Path(file))
        spoil_clock(shared)
        kept = spoil_disk(shared)
    shorten_leases()
    from fibatchd.__main__ import main

    sys.exit(main())
