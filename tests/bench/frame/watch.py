"""CPU time and memory of processes, looked at from outside."""

import bisect
import threading
import time
from pathlib import Path

import psutil

_EVERY_S = 0.01


def cpu_of(process: psutil.Process) -> float:
    """Return a process' CPU seconds so far, all threads, with its children and those that have ended."""
    times = process.cpu_times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(sum(child.cpu_times()[:2]) for child in process.children())


def peak_mib(pid: int) -> float:
    """Return the most memory that a process ever held (its VmHWM)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


class CpuWatch:
    """Notes a process' CPU time every few milliseconds for as long as the block runs, so that it can be told afterwards what
    it was between two moments (Unix time) that only the database knows."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._at: list[float] = []
        self._spent: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "CpuWatch":
        self._note()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._note()

    def between(self, first: float, last: float) -> float:
        """Return the CPU seconds spent between two moments."""
        return self._until(last) - self._until(first)

    def _until(self, moment: float) -> float:
        index = min(bisect.bisect_left(self._at, moment), len(self._at) - 1)
        return self._spent[index]

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self._note()

    def _note(self) -> None:
        self._at.append(time.time())
        self._spent.append(cpu_of(self._process))
