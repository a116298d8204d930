"""How long it takes until 50,000 requests in 32 MiB are stored: in one create call, and as an input file that is uploaded,
checked and stored. Beside it a floor script that only parses and inserts; and whether others are served meanwhile.

The floor runs before and after, so that a change of the machine's mood in between counts for both.
"""

import statistics
from collections.abc import Callable, Mapping

from frame import database
from frame.floor import floor
from frame.large import create_call, form_with_file, input_file
from frame.poller import Poller, percentile
from frame.row import Figure, Row
from frame.stand import Stand, scratch, stand
from frame.upstreams import LatencyMock
from frame.watch import CpuWatch

REQUESTS = 50_000
WARM_UP = 1000
ENDLESS_S = 3600
"""The model's time for an answer: nothing is to run while it is measured how requests are stored."""

Span = tuple[float, float]


def measure(name: str, form: str, text: bytes, store: Callable[[Stand, bytes], Span]) -> Mapping[str, float]:
    """Store `text` by `store`, which returns when it began and ended; `form` is the floor script's."""
    with scratch() as folder, LatencyMock.running(delay=ENDLESS_S) as mock, stand(mock.url, concurrency=1) as daemon:
        asked_for = str(daemon.send("/v1/batches", create_call(WARM_UP, 0)).answer["id"])
        before = floor(form, text, folder)
        poller = Poller(daemon.daemon.port, daemon.key, f"/v1/batches/{asked_for}")
        daemon.longest_hold()
        with CpuWatch(daemon.process.pid) as cpu:
            began, ended = store(daemon, text)
        waits = [seconds for at, seconds in poller.stop() if began <= at <= ended]
        hold, hold_cpu = daemon.longest_hold()
        after = floor(form, text, folder)
    least = (before.seconds + after.seconds) / 2
    return {
        name: (ended - began) / least,
        f"get_p99_{name}": percentile(waits, 0.99) * 1e3,
        f"hold_{name}": hold * 1e3,
        "s": ended - began,
        "s, floor": least,
        "s CPU": cpu.between(began, ended),
        "s CPU, floor": (before.cpu_s + after.cpu_s) / 2,
        "ms of CPU time in the longest hold": hold_cpu * 1e3,
        "ms p50 of GET": statistics.median(waits) * 1e3,
        "ms at most of GET": max(waits) * 1e3,
    }


def create(daemon: Stand, call: bytes) -> Span:
    """One call holds all."""
    sent = daemon.send("/v1/batches", call)
    return sent.began, sent.ended


def upload_and_create(daemon: Stand, file: bytes) -> Span:
    """Upload, then a batch of it; until its requests are stored and may run."""
    uploaded = daemon.send("/v1/files", *form_with_file(file))
    batch_id = daemon.create(uploaded.answer["id"])
    daemon.wait_until(batch_id, "in_progress")
    (in_progress,) = database.row(daemon, f"SELECT in_progress_at FROM batches WHERE id = '{batch_id}'")
    return uploaded.began, float(in_progress)


def figures(name: str, what: str, at_most: float) -> tuple[Figure, ...]:
    return (
        Figure(name, f"{what}, ratio to a floor script", at_most=at_most),
        Figure(f"get_p99_{name}", f"`GET /v1/batches/{{id}}` p99 meanwhile ({name})", at_most=50, unit="ms"),
        Figure(f"hold_{name}", f"Longest hold of the event loop meanwhile ({name})", at_most=50, unit="ms"),
    )


INLINE = Row(
    "create",
    figures("create", "Create, inline, 50,000 requests in 32 MiB", 3),
    lambda: measure("create", "whole", create_call(REQUESTS), create),
)
UPLOAD = Row(
    "upload",
    figures("upload", "Upload of 32 MiB and validation of its 50,000 lines", 4),
    lambda: measure("upload", "lines", input_file(REQUESTS), upload_and_create),
)
