"""How long a page waits for the account API: lists in an account with many batches, and one batch with many requests.

    python tests/bench/parts/account_lists.py [--batches 10000] [--requests 50000] [--times 20]

On both stores, over a real socket. Printed: the first answer, the median, and the size of the body.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(TESTS), str(TESTS / "integration")]

import databases  # noqa: E402  # from the folders above
import structlog  # noqa: E402
import trio  # noqa: E402
from api import Api, Owner, serving  # noqa: E402

from fibatchd import plugin_loader  # noqa: E402
from fibatchd.ids import new_id  # noqa: E402
from fibatchd.store.interface import Insert, Script  # noqa: E402
from fibatchd.store.opening import open_store  # noqa: E402

KINDS = (
    ("batch_", "batches", "inline"),
    ("batch_", "batches", "file"),
    ("msgbatch_", "message_batches", "message_batches"),
)
COLUMNS = (
    "id", "api", "source", "account_id", "key_id", "endpoint", "status", "prepared", "created_at", "expires_at",
    "in_progress_at", "ended_at", "total", "completed", "failed", "metadata", "label", "first_number",
)  # fmt: skip
BODY = b'{"model":"glm-5.3-flash","messages":[]}'
ANSWER = json.dumps({"choices": ["y" * 400], "usage": {"prompt_tokens": 10, "completion_tokens": 20}}).encode()


def fill(owner: Owner, batches: int, requests: int, now: float) -> Script[str]:
    """Store ended batches, the last of which has all the requests; return its id."""
    who = (owner.account.id, owner.key.id, "/v1/chat/completions")
    rows, lanes = [], []
    for number in range(batches):
        prefix, api, source = KINDS[number % 3]
        status = "failed" if number % 97 == 0 else "completed"
        times = (now - 4000, now + 86_400, now - 4000, now)
        metadata = json.dumps({"run": str(number), "note": "x" * 100})
        label = f"questions-{number}.jsonl"
        rows.append((new_id(prefix), api, source, *who, status, 1, *times, 100, 99, 1, metadata, label, None))
        lanes.append((number + 1, rows[-1][0], owner.account.id, "glm-5.3-flash", 0))
    rows[-1] = (*rows[-1][:12], requests, requests - requests // 10, requests // 10, *rows[-1][15:17], 1)
    yield Insert("batches", COLUMNS, rows)
    yield Insert("lanes", ("id", "batch_id", "account_id", "model", "queued"), lanes)
    numbers = range(1, requests + 1)
    yield Insert(
        "requests",
        ("number", "lane", "status", "attempts", "started_at", "ended_at", "error_code"),
        [
            (
                n,
                batches,
                "completed" if n % 10 else "failed",
                1,
                now - 4000 + n / 14,
                now - 3990 + n / 14 + n % 13,
                None if n % 10 else "timeout",
            )
            for n in numbers
        ],
    )
    yield Insert("request_bodies", ("number", "custom_id", "body"), [(n, f"q-{n}", BODY) for n in numbers])
    yield Insert("results", ("number", "status_code", "body"), [(n, 200, ANSWER) for n in numbers if n % 10])
    return str(rows[-1][0])


async def ask(api: Api, name: str, path: str, times: int) -> str:
    """Ask so often, and print how long it took; return the last answer's text."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        answer = await api.call("GET", path)
        taken.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, answer.text
    print(
        f"  {name:30} {taken[0]:8.1f} ms {statistics.median(taken):8.1f} ms {len(answer.content):9} bytes", flush=True
    )
    return answer.text


async def measure(url: str, batches: int, requests: int, times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder), store_url=url) as api:
            batch_id = await api.context.store.write(fill, api.ada, batches, requests, api.clock.now)
            if api.context.store.shared:
                await databases.administer(url, "ANALYZE")  # as autovacuum does by itself, some time after so many rows
            listed, one = "/v1/account/batches", f"/v1/account/batches/{batch_id}"
            last = json.loads(await ask(api, "list", listed, times))["last_id"]
            for name, path in {
                "next page": f"{listed}?after={last}",
                "100 a page": f"{listed}?limit=100",
                "status, a few": f"{listed}?status=failed",
                "status, none": f"{listed}?status=in_progress",
                "model, none": f"{listed}?model=other",
                "text, none": f"{listed}?q=nothing-at-all",
                "one batch": one,
                "its progress": f"{one}/progress",
                "its requests": f"{one}/requests",
                "its requests, none such": f"{one}/requests?outcome=running",
                "usage": "/v1/usage",
            }.items():
                await ask(api, name, path, times)


async def migrate(url: str) -> None:
    async with open_store(url, Path(), migrations=plugin_loader.load().migrations(), exclusive=True):
        pass


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    structlog.configure(processors=[_drop])
    print("SQLite: first, median")
    trio.run(measure, "sqlite:fibatchd.db", options.batches, options.requests, options.times)
    with databases.any_server() as server, databases.new_database(server) as url:
        trio.run(migrate, url)
        print("PostgreSQL: first, median")
        trio.run(measure, url, options.batches, options.requests, options.times)


if __name__ == "__main__":
    main()
