"""What interactive calls to a model that takes 200 ms feel of us: the same calls to the model itself, through the daemon, and
through the daemon while a batch runs on another model at its full concurrency."""

import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil
from frame.caller import call
from frame.poller import percentile
from frame.row import Figure, Row
from frame.stand import Stand, stand, tiny
from frame.upstreams import LatencyMock
from frame.watch import cpu_of

DELAY_S = 0.2
BATCH_DELAY_S = 0.1
BATCH = 50_000
BATCH_AT_ONCE = 256
CALLS = 800
PAUSE_S = 0.2
AT_ONCE = 16
OVERHEAD_AT_ONCE = 64

_CHAT = """
[[models]]
id = "chat"
[[models.upstreams]]
url = "{url}/v1"
max_connections = 4096
"""


@contextmanager
def two_models() -> Iterator[tuple[LatencyMock, Stand]]:
    """The model `chat`, whose answers all take as long, and a daemon that also has the batch's model."""
    with (
        LatencyMock.running(delay=DELAY_S, jitter=0) as chat,
        LatencyMock.running(delay=BATCH_DELAY_S) as mock,
        stand(mock.url, concurrency=BATCH_AT_ONCE, more=_CHAT.format(url=chat.url)) as daemon,
    ):
        yield chat, daemon


def measure_beside() -> Mapping[str, float]:
    found: dict[str, float] = {}
    with two_models() as (_, daemon):
        file = daemon.upload(tiny(BATCH))
        for name, stream in (("call", False), ("token", True)):
            called(daemon, stream)
            without = called(daemon, stream)
            batch_id = daemon.create(file)
            daemon.wait_until(batch_id, "in_progress")
            beside = called(daemon, stream)
            assert daemon.status(batch_id) == "in_progress", "the batch was over before the calls were"
            daemon.wait_for(batch_id)
            for share, middle in (("p50", 0.5), ("p99", 0.99)):
                alone, busy = percentile(without, middle), percentile(beside, middle)
                found[f"{name}_{share}"] = busy / alone
                found[f"ms, {name} {share} without"] = alone * 1e3
                found[f"ms, {name} {share} beside the batch"] = busy * 1e3
    return found


def called(daemon: Stand, stream: bool) -> list[float]:
    """Make calls through the daemon, and return how long each took."""
    return call(daemon.daemon.port, daemon.key, "chat", at_once=AT_ONCE, calls=CALLS, pause_s=PAUSE_S, stream=stream)


def measure_overhead() -> Mapping[str, float]:
    calls = 3 * CALLS
    with two_models() as (chat, daemon):
        process = psutil.Process(daemon.process.pid)
        before = cpu_of(process)
        straight, through = (
            call(port, daemon.key, "chat", at_once=OVERHEAD_AT_ONCE, calls=calls, pause_s=PAUSE_S)
            for port in (chat.port, daemon.daemon.port)
        )
        cpu = cpu_of(process) - before
    return {
        "overhead_p50": (statistics.median(through) - statistics.median(straight)) * 1e3,
        "overhead_p99": (percentile(through, 0.99) - percentile(straight, 0.99)) * 1e3,
        "µs CPU a call": cpu / calls * 1e6,
        "ms p50, the model itself": statistics.median(straight) * 1e3,
        "ms p99, the model itself": percentile(straight, 0.99) * 1e3,
    }


_BESIDE = "with a batch at its full concurrency on a 100 ms upstream, ratio to without"

BESIDE = Row(
    "interactive",
    tuple(
        Figure(f"{name}_{share}", f"{what} {share} {_BESIDE}", at_most=1.1)
        for name, what in (("call", "Interactive chat"), ("token", "Interactive chat, streamed: first token"))
        for share in ("p50", "p99")
    ),
    measure_beside,
)
OVERHEAD = Row(
    "overhead",
    tuple(
        Figure(
            f"overhead_{share}",
            f"Overhead of the interactive path over a 200 ms upstream, 64 at once, jittered, {share}",
            at_most=most,
            unit="ms",
        )
        for share, most in (("p50", 4), ("p99", 25))
    ),
    measure_overhead,
)
