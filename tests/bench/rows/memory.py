"""How much memory the daemon takes: for 50,000 requests in 32 MiB from the call that creates them to the download of their
results, with 100,000 requests queued that do not run, and with nothing to do."""

import time
from collections.abc import Mapping

import psutil
from frame.large import create_call
from frame.row import Figure, Row
from frame.stand import Stand, scratch, stand
from frame.upstreams import LatencyMock, Nginx
from frame.watch import peak_mib

REQUESTS = 50_000
SETTLED_S = 15
ENDLESS_S = 3600


def measure() -> Mapping[str, float]:
    return end_to_end() | idle()


def end_to_end() -> dict[str, float]:
    """The most that a daemon ever held while such a batch was created, run and read."""
    with scratch() as folder, Nginx.running(folder) as nginx, stand(nginx.url, concurrency=64) as daemon:
        batch_id = str(daemon.send("/v1/batches", create_call(REQUESTS)).answer["id"])
        created = peak_mib(daemon.process.pid)
        daemon.wait_for(batch_id)
        run = peak_mib(daemon.process.pid)
        answer = daemon.client.get(f"/v1/batches/{batch_id}/output.jsonl").raise_for_status()
        assert answer.content.count(b"\n") == REQUESTS
        return {
            "peak": peak_mib(daemon.process.pid),
            "MiB at most until it was created": created,
            "MiB at most until it had run": run,
        }


def idle() -> dict[str, float]:
    """What it holds some time after it was started, and some time after all requests that an account may have were created."""
    with LatencyMock.running(delay=ENDLESS_S) as mock, stand(mock.url, concurrency=1) as daemon:
        empty = settled_mib(daemon)
        for _ in range(2):
            daemon.send("/v1/batches", create_call(REQUESTS, 0))
        return {"idle_queued": settled_mib(daemon), "idle_empty": empty}


def settled_mib(daemon: Stand) -> float:
    """Return what the daemon holds once it has had nothing to do for a while."""
    time.sleep(SETTLED_S)
    return float(psutil.Process(daemon.process.pid).memory_info().rss) / 2**20


ROW = Row(
    "memory",
    (
        Figure("peak", "Peak memory, 50,000 requests in 32 MiB, end to end", at_most=350, unit="MiB"),
        Figure("idle_queued", "Memory, idle with 100,000 requests queued", at_most=150, unit="MiB"),
        Figure("idle_empty", "Memory, idle and empty", at_most=100, unit="MiB"),
    ),
    measure,
)
