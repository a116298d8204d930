"""Requests a second that each store driver takes from queued to completed, and the CPU that costs, here and at the server.

    python tests/bench/parts/store_cycle.py [--requests 20000] [--group 64] [--tasks 1] [sqlite postgresql]

One cycle is what a pool does for a group of requests beside calling the upstream: look for candidates, claim, record the
outcomes. The answers are made up, so the store alone is measured; the PostgreSQL is one of our own with its default,
durable settings. Trust the ratio more than the figures.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psutil
import trio

from fibatchd.domain.requests import NewRequest, Outcome, Usage
from fibatchd.ids import new_id, request_id
from fibatchd.store import accounts, admission, claims, leases, migrate, record
from fibatchd.store.ending import Policy
from fibatchd.store.opening import open_store

sys.path.insert(0, str(Path(__file__).parents[2]))

_BODY = b'{"model":"m","messages":[{"role":"user","content":"%s"}],"max_tokens":64}' % (b"word " * 60)
_ANSWER = b'{"id":"x","object":"chat.completion","model":"m","choices":[{"message":{"content":"%s"}}]}' % (
    b"word " * 60
)
_POLICY = Policy(2_592_000, 86_400)
_CHUNK = 1000


async def fill(store, requests):
    """Put in one batch of so many requests for the model "m"."""
    account = await store.write(accounts.create_account, "bench", "internal")
    key, _ = await store.write(accounts.create_key, account.id)
    new = admission.NewBatch(
        new_id("batch_"), "batches", "inline", account.id, key.id, "/v1/chat/completions", 86_400, model="m"
    )
    await store.write(admission.insert, new, "staging")
    reserved = await store.write(admission.reserve, new.id, ["m"], requests)
    for first in range(0, requests, _CHUNK):
        chunk = [NewRequest(f"r{n}", "m", _BODY) for n in range(first, min(first + _CHUNK, requests))]
        await store.write(admission.append, reserved, first, chunk)
    limits = admission.Limits(10, 10_000_000)
    await store.write(admission.publish, new, reserved, {"m": requests}, 0, limits, _POLICY, None)


async def work(store, group):
    """Run requests as one pool would, until none is left."""
    daemon = await store.write(leases.register, "bench")
    while True:
        found, _ = await store.read(claims.candidates, "m")
        if not found:
            return
        claim = await store.write(claims.claim, daemon, [(found[0].lane, group)], lambda *_: True)
        outcomes = [
            Outcome(claimed, request_id(), (200, _ANSWER), usage=Usage(80, 0, 60, 0), cost=4_200_000)
            for claimed in claim.requests
        ]
        if outcomes:
            await store.write(record.record, outcomes, _POLICY)


def server_cpu(postmaster):
    """CPU seconds of a PostgreSQL server so far, its living processes together."""
    processes = [postmaster, *postmaster.children()] if postmaster else []
    return sum(sum(process.cpu_times()[:2]) for process in processes)


async def measure(name, url, folder, options, postmaster):
    async with open_store(url, Path(folder), migrations=migrate.core(), exclusive=True) as store:
        begun = time.perf_counter()
        await fill(store, options.requests)
        filled = time.perf_counter() - begun
        wall, cpu, served = time.perf_counter(), time.process_time(), server_cpu(postmaster)
        async with trio.open_nursery() as nursery:
            for _ in range(options.tasks):
                nursery.start_soon(work, store, options.group)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        served = server_cpu(postmaster) - served
    print(
        f"{name:11} {options.requests / filled:9,.0f} stored/s {options.requests / wall:9,.0f} run/s"
        f" {cpu / options.requests * 1e6:7.1f} us CPU here {served / options.requests * 1e6:7.1f} us at the server, each"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drivers", nargs="*", default=["sqlite", "postgresql"])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--group", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if "sqlite" in options.drivers:
            trio.run(measure, "sqlite", "sqlite:bench.db", folder, options, None)
        if "postgresql" in options.drivers:
            import databases

            with databases.own_server(durable=True) as server:
                postmaster = psutil.Process(server.get_pid())
                trio.run(measure, "postgresql", server.get_uri(), folder, options, postmaster)


if __name__ == "__main__":
    sys.exit(main())
