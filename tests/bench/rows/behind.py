"""How long a small batch takes behind a large one: 20 requests behind another account's 50,000 on the same model, which takes
100 ms for each; from the call that creates it to its end, beside the same without the large one."""

import statistics
import time
from collections.abc import Mapping

from frame.row import Figure, Row
from frame.stand import Stand, stand, tiny, tiny_body
from frame.upstreams import LatencyMock

LARGE = 50_000
SMALL = 20
DELAY_S = 0.1
SUBMISSIONS = 9


def measure() -> Mapping[str, float]:
    return measure_at(256) | measure_at(32)


def measure_at(concurrency: int) -> dict[str, float]:
    with LatencyMock.running(delay=DELAY_S) as mock, stand(mock.url, concurrency=concurrency) as daemon:
        others = daemon.of_another_account()
        submit_small(daemon)
        alone = [submit_small(daemon) for _ in range(SUBMISSIONS)]
        large = others.create(others.upload(tiny(LARGE)))
        others.wait_until(large, "in_progress")
        time.sleep(1)  # until it has all the places that it can get
        behind = [submit_small(daemon) for _ in range(SUBMISSIONS)]
        assert others.status(large) == "in_progress"
    return {
        f"behind_{concurrency}": statistics.median(behind) / statistics.median(alone),
        f"ms alone, concurrency {concurrency}": statistics.median(alone) * 1e3,
        f"ms behind, concurrency {concurrency}": statistics.median(behind) * 1e3,
    }


def submit_small(daemon: Stand) -> float:
    """Create a small batch, and return how many seconds that took until its end."""
    requests = [{"custom_id": f"s-{number}", "body": tiny_body(number)} for number in range(SMALL)]
    began = time.time()
    batch_id = daemon.client.post("/v1/batches", json={"requests": requests}).raise_for_status().json()["id"]
    daemon.wait_for(batch_id)
    return daemon.times(batch_id).ended - began


_TITLE = "A batch of 20 behind one of 50,000, 100 ms upstream, concurrency {}: its time, ratio to alone"

ROW = Row(
    "behind",
    (
        Figure("behind_256", _TITLE.format(256), at_most=1.5),
        Figure("behind_32", _TITLE.format(32), at_most=2.2),
    ),
    measure,
)
