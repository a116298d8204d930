"""What the daemon costs while it has nothing to do."""

import time
from collections.abc import Mapping

import psutil
from frame.row import Figure, Row
from frame.stand import NOWHERE, stand
from frame.watch import cpu_of

SETTLED_S = 5
WATCHED_S = 30


def measure() -> Mapping[str, float]:
    with stand(NOWHERE, concurrency=64) as daemon:
        process = psutil.Process(daemon.process.pid)
        time.sleep(SETTLED_S)
        before, began = cpu_of(process), time.monotonic()
        time.sleep(WATCHED_S)
        return {"idle_cpu": (cpu_of(process) - before) / (time.monotonic() - began) * 100}


ROW = Row("idle", (Figure("idle_cpu", "CPU time while idle, of one core", at_most=0.5, unit="%"),), measure)
