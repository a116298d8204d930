"""The page of figures, docs/performance.md, made from docs/performance.json, which keeps the numbers of every run."""

import datetime
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from frame.row import Row
from frame.stand import scratch

Values = Mapping[str, Sequence[float]]

_HEAD = """# Performance

What fibatchd is to reach, and what it reached. `make bench` measures all of it anew and writes this page;
`python tests/bench/run.py ROW` makes one row's runs.

Every figure was measured with client, daemon, database and model server on one machine, so that they took the processor from
each other, and everything durable as in production: SQLite with `synchronous=FULL`, PostgreSQL with its defaults. Ratios are
to a yardstick that ran beside the daemon, mostly the *bare loop* (`tests/bench/frame/yardstick.py`): trio, h11 and kept-alive
connections, the same bodies to the same server, nothing stored. A figure is the median of its runs; their range follows.
[Flame graphs](flamegraphs/README.md) show where the time of a dispatch goes.

| figure | level | reached | range | |
|---|---|---|---|---|
"""


def told(row: Row, values: Values) -> Iterator[str]:
    """Give a line for each figure of a row."""
    for figure in row.figures:
        met = "met" if figure.is_met(values[figure.key]) else "NOT MET"
        yield f"{figure.key}: {_median(values[figure.key])} ({_range(values[figure.key])}), level {figure.level}: {met}"


def write(root: Path, rows: Iterable[Row], row: Row, values: Values) -> None:
    """Put a row's numbers in the place of its old ones, and write the page."""
    path = root / "docs/performance.json"
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    kept[row.name] = {"measured": _circumstances(root), "runs": {key: list(found) for key, found in values.items()}}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    measured = [(known, kept[known.name]) for known in rows if known.name in kept]
    (root / "docs/performance.md").write_text(_page(measured))


def _page(measured: Sequence[tuple[Row, dict[str, Any]]]) -> str:
    table = [_line(figure, found["runs"][figure.key]) for row, found in measured for figure in row.figures]
    sections = [_section(row, found) for row, found in measured]
    return _HEAD + "\n".join(table) + "\n\n## Beside the figures\n\n" + "\n\n".join(sections) + "\n"


def _line(figure: Any, values: Sequence[float]) -> str:
    met = "met" if figure.is_met(values) else "**not met**"
    unit = figure.unit and f" {figure.unit}"
    return f"| {figure.title} | {figure.level} | {_median(values)}{unit} | {_range(values)} | {met} |"


def _section(row: Row, found: Mapping[str, Any]) -> str:
    """Return what stands beside a row's figures, and when and where it was measured."""
    when = found["measured"]
    count = max(len(values) for values in found["runs"].values())
    lines = [
        f"### {row.name}",
        "",
        f"{count} runs, {when['date']}, commit {when['commit']}, {when['machine']}.",
        "",
        "| | median | range |",
        "|---|---|---|",
    ]
    keys = {figure.key for figure in row.figures}
    lines += [f"| {key} | {_median(v)} | {_range(v)} |" for key, v in found["runs"].items() if key not in keys]
    return "\n".join(lines)


def _median(values: Sequence[float]) -> str:
    return _text(statistics.median(values))


def _range(values: Sequence[float]) -> str:
    return f"{_text(min(values))} to {_text(max(values))}"


def _text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _circumstances(root: Path) -> dict[str, str]:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    changed = " and uncommitted changes" if git("status", "--porcelain", "--", "fibatchd", "plugins") else ""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": git("rev-parse", "--short=12", "HEAD") + changed,
        "machine": _machine(),
    }


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    return (
        f"{os.cpu_count()} cores of {model}, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, a flush to disk takes {_flush_ms():.1f} ms"
    )


def _flush_ms(times: int = 101) -> float:
    """Return the median of what `fdatasync` takes after a write of 4 KiB, where the daemons' databases are."""
    took = []
    with scratch() as folder, tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(times):
            file.write(bytes(4096))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e3
