"""Runs rows of the bench, five times each, and writes docs/performance.md.

    python tests/bench/run.py [ROW …] [--runs 5] [--write]

Without `--write` the figures are only printed. With it they are put into docs/performance.json, in the place of what these rows
had there before, and the page is made anew from all of it. A row takes from half a minute to some minutes; nothing else should
run on the machine meanwhile.
"""

import argparse
import importlib
import pkgutil
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]

import rows  # noqa: E402  # found by the path above
from frame import report  # noqa: E402
from frame.row import Row  # noqa: E402


def all_rows() -> dict[str, Row]:
    """Return every row by its name, in the order of the modules' names."""
    modules = [importlib.import_module(f"rows.{found.name}") for found in pkgutil.iter_modules(rows.__path__)]
    return {row.name: row for module in modules for row in vars(module).values() if isinstance(row, Row)}


def run(row: Row, runs: int) -> report.Values:
    """Make the runs of a row, printing each."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(runs):
        found = row.measure()
        for key, value in found.items():
            values[key].append(value)
        print(f"  {number + 1}: " + "; ".join(f"{key} {value:,.3g}" for key, value in found.items()), flush=True)
    return dict(values)


def main() -> None:
    known = all_rows()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(known))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    options = parser.parse_args()
    for name in options.rows or known:
        if name not in known:
            parser.error(f"no row is called {name}; there are {', '.join(known)}")
        print(name, flush=True)
        values = run(known[name], options.runs)
        for line in report.told(known[name], values):
            print(f"  {line}", flush=True)
        if options.write:
            report.write(ROOT, known.values(), known[name], values)


if __name__ == "__main__":
    main()
