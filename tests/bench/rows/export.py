"""How fast 50,000 results of 1 KB each are downloaded as one file, beside a script that only reads their rows.

The first download reads them twice, since the ETag goes before the first byte; it is told beside the figure.
"""

import http.client
import time
from collections.abc import Mapping
from typing import NamedTuple

from frame import database, filling
from frame.row import Figure, Row
from frame.row_reader import read_rows
from frame.stand import NOWHERE, Stand, stand
from frame.watch import CpuWatch

REQUESTS = 50_000
ANSWER_BYTES = 1000
AT_ONCE = 2**20


def measure() -> Mapping[str, float]:
    with stand(NOWHERE, concurrency=1) as daemon:
        batch_id = filling.ended(daemon, 1, requests=REQUESTS, answer=filling.answer_of(ANSWER_BYTES))
        first, last = database.row(
            daemon, f"SELECT first_number, first_number + total - 1 FROM batches WHERE id = '{batch_id}'"
        )
        path = daemon.folder / "fibatchd.db"
        at_first = download(daemon, batch_id)
        before = read_rows(path, first, last)
        with CpuWatch(daemon.process.pid) as cpu:
            again = download(daemon, batch_id)
        after = read_rows(path, first, last)
    rows = (before.seconds + after.seconds) / 2
    return {
        "export": rows / again.seconds,
        "MB/s": again.size / again.seconds / 1e6,
        "MB/s, the first time": again.size / at_first.seconds / 1e6,
        "MB/s, were its rows only read": again.size / rows / 1e6,
        "s CPU": cpu.between(again.began, again.began + again.seconds),
        "s CPU, reading rows": (before.cpu_s + after.cpu_s) / 2,
    }


class Download(NamedTuple):
    """When it began (Unix time), how long it took, and how many bytes came."""

    began: float
    seconds: float
    size: int


def download(daemon: Stand, batch_id: str) -> Download:
    """Download a batch's results, and throw them away."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.daemon.port)
    began, size = time.time(), 0
    connection.request("GET", f"/v1/batches/{batch_id}/output.jsonl", headers={"authorization": f"Bearer {daemon.key}"})
    with connection.getresponse() as answer:
        assert answer.status == 200
        while received := answer.read1(AT_ONCE):
            size += len(received)
    taken = time.time() - began
    connection.close()
    assert size > REQUESTS * ANSWER_BYTES
    return Download(began, taken, size)


ROW = Row(
    "export",
    (Figure("export", "Export of 50,000 results (1 KB each): MB/s, ratio to reading the rows alone", at_least=0.5),),
    measure,
)
