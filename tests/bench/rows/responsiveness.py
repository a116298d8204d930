"""Whether others are served while 20,000 tiny requests are dispatched: a second client asks for the batch a hundred times a
second, and the daemon notes how long its event loop is held."""

import statistics
from collections.abc import Mapping

from frame.poller import Poller, percentile
from frame.row import Figure, Row
from frame.stand import scratch, stand, tiny
from frame.upstreams import Nginx

REQUESTS = 20_000
AT_ONCE = 64
WARM_UP = 100


def measure() -> Mapping[str, float]:
    with (
        scratch() as folder,
        Nginx.running(folder) as nginx,
        stand(nginx.url, concurrency=AT_ONCE) as daemon,
    ):
        asked_for = daemon.run_file(daemon.upload(tiny(WARM_UP)))
        file = daemon.upload(tiny(REQUESTS))
        poller = Poller(daemon.daemon.port, daemon.key, f"/v1/batches/{asked_for}")
        batch_id = daemon.create(file)
        daemon.wait_until(batch_id, "in_progress")
        daemon.longest_hold()
        daemon.wait_for(batch_id)
        hold, hold_cpu = daemon.longest_hold()
        _, began, over, _ = daemon.times(batch_id)
        took = [seconds for at, seconds in poller.stop() if began <= at <= over]
    return {
        "get_p99_dispatch": percentile(took, 0.99) * 1e3,
        "hold_dispatch": hold * 1e3,
        "ms of CPU time in the longest hold": hold_cpu * 1e3,
        "ms p50 of GET": statistics.median(took) * 1e3,
        "ms at most of GET": max(took) * 1e3,
        "GETs": len(took),
        "requests/s meanwhile": REQUESTS / (over - began),
    }


_WHILE = "while 20,000 tiny requests are dispatched"

ROW = Row(
    "responsiveness",
    (
        Figure("get_p99_dispatch", f"`GET /v1/batches/{{id}}` p99 {_WHILE}", at_most=50, unit="ms"),
        Figure("hold_dispatch", f"Longest hold of the event loop {_WHILE}", at_most=50, unit="ms"),
    ),
    measure,
)
