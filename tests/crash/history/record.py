"""A history: JSON lines, one for each thing that happened. Several processes write files of their own, which are read together.

Times are of CLOCK_MONOTONIC, which all processes of a machine share and nobody steps. Kinds of entry:

begun          `seed`, `limits`; `wall`: what is to be added to a time for Unix seconds
call           `op`, from `at` to `ended`; `status` is the answer's, None where there was none; what was asked, by `op`
attempt        the upstream was asked: `n` (its own number for it), `who`, `model`
attempt_ended  `n`, `outcome` (see upstream.py); of an answer also `answer` and `usage`
event          a webhook's delivery: `id`, `type`, `batch`
fault          `name`, from `at` to `ended`
final          a batch as it was read in the end: `batch`, `account`, `form`, `object`, `results`
row            a row of the database in the end: `table`, and what stands in it
"""

import json
import time
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class History:
    """Appends to one file. Every line is handed to the system at once, so that a killed process loses none."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def note(self, kind: str, /, at: float | None = None, **fields: Any) -> None:
        entry = {"kind": kind, "at": time.monotonic() if at is None else at, **fields}
        self._file.write(json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        self._file.close()


def read(folder: Path) -> list[Entry]:
    """All that was written in a folder, in the order of time."""
    entries: list[Entry] = []
    for file in sorted(folder.glob("*.jsonl")):
        entries += [json.loads(line) for line in file.read_text().splitlines()]
    return sorted(entries, key=lambda entry: entry["at"])
