"""Whether a slow model is kept busy: 20,000 requests, 256 at once, of 100 ms each, beside the bare loop; until the
last of them is over, without the writing of files that follows."""

from collections.abc import Mapping

from frame.ceiling import ceiling
from frame.row import Figure, Row
from frame.stand import bodies_file, scratch, stand, tiny
from frame.upstreams import LatencyMock
from frame.watch import CpuWatch
from frame.yardstick import bare_loop

REQUESTS = 20_000
AT_ONCE = 256
DELAY_S = 0.1


def measure() -> Mapping[str, float]:
    with scratch() as folder:
        bodies = bodies_file(folder, REQUESTS)
        with LatencyMock.running(delay=0) as instant:
            most = ceiling(instant.port, connections=AT_ONCE)
        with LatencyMock.running(delay=DELAY_S) as mock:
            bare = bare_loop("h11", mock.port, AT_ONCE, bodies)
            with stand(mock.url, concurrency=AT_ONCE) as daemon:
                file = daemon.upload(tiny(REQUESTS))
                with CpuWatch(daemon.process.pid) as cpu:
                    batch = daemon.run_file(file)
                times = daemon.times(batch)
    rate = REQUESTS / (times.finalizing - times.began)
    return {
        "utilisation": rate / bare.rate,
        "requests/s": rate,
        "requests/s, bare loop": bare.rate,
        "requests/s, were nothing lost": AT_ONCE / DELAY_S,
        "requests/s, mock at most": most,
        "µs CPU a request": cpu.between(times.began, times.finalizing) / REQUESTS * 1e6,
        "µs CPU a request, bare loop": bare.cpu_us,
    }


ROW = Row(
    "utilisation",
    (
        Figure(
            "utilisation",
            "Utilisation: 100 ms upstream (± 20 %), concurrency 256, 20,000 requests: ratio to what the bare loop reaches",
            at_least=0.97,
        ),
    ),
    measure,
)
