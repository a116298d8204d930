"""A daemon at its limits: what no row of the bench has a level for.

    python tests/bench/parts/at_limits.py [creates] [reads] [events] [--requests 50000]

creates  ten creates of 32 MiB at once: what each is answered, the peak memory, and how long GET /healthz took meanwhile.
reads    all results of a large batch, page by page and as one file: how long the batch's GET and /healthz took meanwhile.
events   how much later a streamed event arrives through the daemon than straight from the model, with a batch running, too.

The clients and the model run on the same machine as the daemon: trust ratios more than figures.
"""

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from daemons import ModelServerProcess, chat, closing_all, results  # noqa: E402  # found by the path above
from frame import filling  # noqa: E402
from frame.large import create_call  # noqa: E402
from frame.poller import Poller, percentile  # noqa: E402
from frame.stand import NOWHERE, Stand, stand, tiny  # noqa: E402
from frame.upstreams import LatencyMock  # noqa: E402
from frame.watch import peak_mib  # noqa: E402

CREATES = 10
ANSWER_BYTES = 1000
CALLS = 5


def creates(count: int) -> None:
    with LatencyMock.running(delay=0.1) as mock, stand(mock.url, concurrency=8) as daemon:
        body, statuses = create_call(count), []

        def create(account: Stand) -> None:
            statuses.append(account.client.post("/v1/batches", content=body).status_code)

        threads = [threading.Thread(target=create, args=(daemon.of_another_account(),)) for _ in range(CREATES)]
        poller = Poller(daemon.daemon.port, daemon.key, "/healthz")
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = time.monotonic() - began
        print(f"  answered {sorted(statuses)} in {taken:.1f} s; peak memory {peak_mib(daemon.process.pid):.0f} MiB")
        assert set(statuses) <= {200, 503}
        tell("GET /healthz meanwhile", [took for _, took in poller.stop()])


def reads(count: int) -> None:
    with stand(NOWHERE, concurrency=1) as daemon:
        batch_id = filling.ended(daemon, 1, requests=count, answer=filling.answer_of(ANSWER_BYTES))
        path = f"/v1/batches/{batch_id}"
        pollers = {
            name: Poller(daemon.daemon.port, daemon.key, asked)
            for name, asked in (("GET a batch", path), ("GET /healthz", "/healthz"))
        }
        began = time.time()
        assert len(results(daemon.client, batch_id)) == count
        paged = time.time()
        assert daemon.client.get(f"{path}/output.jsonl").raise_for_status().content.count(b"\n") == count
        ended = time.time()
        for name, poller in pollers.items():
            found = poller.stop()
            tell(f"{name}, paged", [took for at, took in found if began <= at < paged])
            tell(f"{name}, export", [took for at, took in found if paged <= at < ended])
        print(f"  paged in {paged - began:.2f} s, exported in {ended - paged:.2f} s")


def events(count: int) -> None:
    with closing_all() as processes:
        model = ModelServerProcess(delay=0.2, jitter=0.2)
        processes.append(model)
        model.control(rules=[{"match": "stream", "action": {"pause": 0.01, "delay": 0}}])
        with stand(model.url, concurrency=64) as daemon:
            tell("straight from the model", straight := event_delays(model.port, daemon.key))
            tell("through the daemon", through := event_delays(daemon.daemon.port, daemon.key))
            print(f"  on top, p50: {(statistics.median(through) - statistics.median(straight)) * 1e3:.2f} ms")
            batch_id = daemon.create(daemon.upload(tiny(count)))
            daemon.wait_until(batch_id, "in_progress")
            tell("with a batch running", event_delays(daemon.daemon.port, daemon.key))
            assert daemon.status(batch_id) == "in_progress"


def event_delays(port: int, key: str) -> list[float]:
    """Seconds from the model's sending of an event to its arrival here."""
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    body = json.dumps(chat("", "stream " + "word " * 100, stream=True)["body"])
    delays = []
    for _ in range(CALLS):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        assert answer.status == 200
        while line := answer.readline():
            if line.startswith(b"data: {"):
                sent_at = json.loads(line[6:]).get("sent_at")
                delays += [time.time() - sent_at] if sent_at else []
        connection.close()
    return delays


def tell(name: str, values: list[float]) -> None:
    """Print a distribution of seconds."""
    told = (("p50", statistics.median(values)), ("p99", percentile(values, 0.99)), ("max", max(values)))
    print(f"  {name:24} n {len(values):5}", *(f"{share} {value * 1e3:6.1f}" for share, value in told), "ms")


def main() -> None:
    parts = {"creates": creates, "reads": reads, "events": events}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(parts))
    parser.add_argument("--requests", type=int, default=50_000)
    options = parser.parse_args()
    for name in options.parts:
        print(name)
        parts[name](options.requests)


if __name__ == "__main__":
    main()
