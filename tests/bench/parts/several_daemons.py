"""One, two and three daemons on one PostgreSQL, in front of a model that takes 100 ms for an answer.

    python tests/bench/parts/several_daemons.py [--requests 6000] [--concurrency 32 512] [--delay 0.1] [--daemons 1 2 3]

For each number of daemons and each limit of the model: requests a second, the share of the model's places that was in use
while there was work, the most requests that the model ever had at once, and the CPU time that a thousand requests cost
the daemons, the database, and the stand-in for the model. The small limit shows what handing places around costs; the
large one is beyond what the machine can do, and shows what bounds it. The PostgreSQL is our own with its default, durable
settings, on this same machine: trust ratios more than figures.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psutil

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(TESTS / "bench"), str(TESTS), str(TESTS / "crash")]

import databases  # noqa: E402  # they stand beside this folder
import fleet  # noqa: E402
from daemons import DaemonProcess, closing_all, finished  # noqa: E402
from frame.watch import cpu_of  # noqa: E402


def measure(folder, url, postmaster, daemons, concurrency, options):
    with closing_all() as processes:
        few = fleet.start(
            folder, processes, url, count=daemons, concurrency=concurrency, delay=options.delay, kind=DaemonProcess
        )
        key = few.new_key()
        few.create(0, key, 50)  # warms up connections and statements
        with few[0].client(key) as client:
            finished(client, few.batches[0].id)
            groups = [
                [psutil.Process(p.process.pid) for p in few.daemons],
                [postmaster],
                [psutil.Process(few.upstream.process.pid)],
            ]
            before = [sum(map(cpu_of, group)) for group in groups]
            begun = time.perf_counter()
            batch = few.create(0, key, options.requests)
            finished(client, batch, timeout=600)
            wall = time.perf_counter() - begun
        spent = [sum(map(cpu_of, group)) - was for group, was in zip(groups, before, strict=True)]
        most = few.upstream.stats()["max_in_flight"]["up"]
        starts = sorted(entry["at"] for entry in few.upstream.log_entries())[50:]
    busy = options.requests * options.delay / ((starts[-1] - starts[0] + options.delay) * concurrency)
    thousands = options.requests / 1000
    print(
        f"{daemons} daemons, {concurrency:4} places: {options.requests / wall:7.0f} requests/s, {busy:4.0%} of places in use, "
        f"at most {most} at once; CPU s per 1,000: daemons {spent[0] / thousands:.2f}, database {spent[1] / thousands:.2f}, "
        f"model {spent[2] / thousands:.2f}; {len(starts) - options.requests} asked again",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--concurrency", type=int, nargs="*", default=[32, 512])
    parser.add_argument("--daemons", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--delay", type=float, default=0.1)
    options = parser.parse_args()
    with databases.own_server(durable=True) as server:
        postmaster = psutil.Process(server.get_pid())
        for concurrency in options.concurrency:
            for daemons in options.daemons:
                with tempfile.TemporaryDirectory() as folder, databases.new_database(server.get_uri()) as url:
                    measure(Path(folder), url, postmaster, daemons, concurrency, options)


if __name__ == "__main__":
    sys.exit(main())
