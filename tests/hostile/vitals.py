"""What a daemon's process takes, sampled from outside: memory, descriptors, threads, rows and bytes of its database; and whether
any of it grows."""

import sqlite3
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import psutil

MIB = 2**20


@dataclass(frozen=True)
class Sample:
    """One look. Sizes in bytes; `database` is the file with its write-ahead log."""

    at: float
    memory: int
    descriptors: int
    threads: int
    database: int
    rows: Mapping[str, int]


class Vitals:
    """Looks at a daemon with a SQLite database. Memory is what is the process's own (USS): no pages of shared libraries."""

    def __init__(self, pid: int, database: Path) -> None:
        self._process = psutil.Process(pid)
        self._database = database

    def look(self, at: float) -> Sample:
        files = (self._database, self._database.with_name(self._database.name + "-wal"))
        size = sum(file.stat().st_size for file in files if file.exists())
        memory = self._process.memory_full_info().uss
        return Sample(at, memory, self._process.num_fds(), self._process.num_threads(), size, self._rows())

    def _rows(self) -> dict[str, int]:
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=30)) as connection:
            tables = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
            names = [name for (name,) in tables.fetchall()]
            return {name: connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in names}

    def peak_memory(self) -> int:
        """The most resident memory since `forget_peak`, in bytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024

    def forget_peak(self) -> int:
        """Start to look for the peak anew; return the resident memory now."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        return self.resident()

    def resident(self) -> int:
        """The resident memory now, in bytes."""
        return int(self._process.memory_info().rss)


def growth(points: Sequence[tuple[float, float]]) -> float:
    """How much a figure has grown over all of the time: the slope of Theil and Sen, the median of those of all pairs of points,
    which peaks do not move, times the time between the first point and the last."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1]
    return statistics.median(slopes) * (points[-1][0] - points[0][0])
