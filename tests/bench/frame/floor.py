"""The floor under creating a batch: what parsing and storing its requests takes at least.

    python tests/bench/frame/floor.py whole|lines FILE DATABASE      prints {"seconds": …, "cpu_s": …}

The text is parsed once, in C, to a name and a raw slice for each request; nothing is checked. One transaction inserts them
into one table and is flushed to the disk. `whole` is a create call's body, `lines` an input file. It runs in a process of its
own, as the daemon does.
"""

import json
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec


class Item(msgspec.Struct):
    custom_id: str
    body: msgspec.Raw


class Call(msgspec.Struct):
    requests: list[Item]


@dataclass(frozen=True)
class Floor:
    """What it took."""

    seconds: float
    cpu_s: float


def floor(form: str, text: bytes, folder: Path) -> Floor:
    """Run it for this text; `folder` holds its files."""
    file, database = folder / "floor.input", folder / "floor.db"
    for left in folder.glob("floor.*"):
        left.unlink()
    file.write_bytes(text)
    told = subprocess.run(
        [sys.executable, __file__, form, str(file), str(database)], check=True, capture_output=True, text=True
    )
    return Floor(**json.loads(told.stdout))


def _parse(form: str, text: bytes) -> list[Item]:
    if form == "whole":
        return msgspec.json.Decoder(Call).decode(text).requests
    decode = msgspec.json.Decoder(Item).decode
    return [decode(line) for line in text.splitlines()]


def _run(form: str, text: bytes, path: str) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE requests (number INTEGER PRIMARY KEY, custom_id TEXT NOT NULL, body BLOB NOT NULL)")
    wall, cpu = time.perf_counter(), time.process_time()
    rows = [(item.custom_id, memoryview(item.body)) for item in _parse(form, text)]
    database.execute("BEGIN")
    database.executemany("INSERT INTO requests (custom_id, body) VALUES (?, ?)", rows)
    database.execute("COMMIT")
    print(json.dumps({"seconds": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}))


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]).read_bytes(), sys.argv[3])
