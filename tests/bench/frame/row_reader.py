"""The yardstick of an export: reads a batch's results from the database, row by row, and throws them away.

python tests/bench/frame/row_reader.py DATABASE FIRST LAST      prints {"seconds": …, "cpu_s": …}
"""

import json
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_ROWS = """
SELECT r.number, b.custom_id, r.status, r.request_id, s.status_code, s.body
FROM requests r JOIN request_bodies b ON b.number = r.number LEFT JOIN results s ON s.number = r.number
WHERE r.number BETWEEN ? AND ? ORDER BY r.number
"""


@dataclass(frozen=True)
class Reading:
    """What it took."""

    seconds: float
    cpu_s: float


def read_rows(database: Path, first: int, last: int) -> Reading:
    """Read the requests of these numbers in a process of its own."""
    command = [sys.executable, __file__, str(database), str(first), str(last)]
    return Reading(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def _read(path: str, first: int, last: int) -> None:
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    wall, cpu = time.perf_counter(), time.process_time()
    rows = sum(1 for _ in database.execute(_ROWS, (first, last)))
    print(json.dumps({"seconds": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}))
    assert rows == last - first + 1


if __name__ == "__main__":
    _read(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
