"""A daemon at its limits: a batch of 50,000 requests in one call, a small one behind it, interactive calls beside it.

    python tests/bench/parts/create_and_run.py [large] [behind] [interactive] [creates] [--requests 50000]

large        one create of just under 32 MiB; it is run (concurrency 256), paged and exported. Meanwhile another process
             asks for the batch and for /healthz all the time: how long that took, by phase. The daemon's peak memory.
behind       a batch of 20 behind one of 50,000 on the same model (100 ms, concurrency 256): its time against alone.
interactive  calls at random moments to a model that takes 200 ms, with and without a batch running on it: their p99; and
             how much later a streamed event arrives through the daemon than straight from the model.
creates      ten creates of 32 MiB at once: what each is answered, and the peak memory.

The clients and the model run on the same machine as the daemon: trust ratios more than figures.
"""

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from daemons import DaemonProcess, ModelServerProcess, Process, chat, closing_all, finished, results

CONFIG = """
[storage]
min_free_bytes = 0
[tiers.internal]
batch_concurrency = {concurrency}
[[models]]
id = "m"
concurrency = {concurrency}
price_usd_per_million = {{ input = "1", output = "2" }}
[[models.upstreams]]
url = "{url}/v1"
max_connections = 4096
"""
BODY_BYTES = 32 * 2**20


class LightModel(Process):
    """tests/light_model.py in its process."""

    def __init__(self, *, delay: float, jitter: float) -> None:
        super().__init__(sys.executable, str(Path(__file__).parents[2] / "light_model.py"), str(delay), str(jitter))
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"


@contextmanager
def stand(
    *, delay: float, concurrency: int, kind: type[Any] = LightModel
) -> Iterator[tuple[ModelServerProcess, DaemonProcess]]:
    """A model server that takes so long, and a daemon before it."""
    with tempfile.TemporaryDirectory() as folder, closing_all() as processes:
        upstream = kind(delay=delay, jitter=0.2)
        processes.append(upstream)
        daemon = DaemonProcess(Path(folder), CONFIG.format(concurrency=concurrency, url=upstream.url))
        processes.append(daemon)
        yield upstream, daemon


def body_of(count: int) -> bytes:
    """A create call of so many requests that fills what it may."""
    padding = "x" * (BODY_BYTES // count - 150)
    return json.dumps({"requests": [chat(f"q-{n}", f"say {n} {padding}") for n in range(count)]}).encode()


def peak_mib(daemon: DaemonProcess) -> float:
    """The most memory that the daemon ever held (VmHWM)."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


class Poller:
    """Another process that asks for a path every few milliseconds."""

    def __init__(self, port: int, key: str, path: str, every_s: float = 0.01) -> None:
        command = [sys.executable, __file__, "--poll", str(port), key, path, str(every_s)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self) -> list[tuple[float, float]]:
        """Return (when it asked, seconds until the answer), both of this machine's monotonic clock."""
        answers, _ = self._process.communicate("stop\n")
        return [(at, took) for at, took in json.loads(answers)]


def poll(port: int, key: str, path: str, every_s: float) -> None:
    """Ask until a line comes in."""
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    found = []
    while not stopped.wait(every_s):
        began = time.monotonic()
        connection.request("GET", path, headers={"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        found.append((began, time.monotonic() - began))
    print(json.dumps(found))


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def tell(name: str, values: list[float]) -> None:
    """Print a distribution of seconds."""
    figures = (statistics.median(values), percentile(values, 0.99), max(values))
    print(
        f"  {name:34} n {len(values):5}  p50 {figures[0] * 1e3:6.1f}  p99 {figures[1] * 1e3:6.1f}  max {figures[2] * 1e3:6.1f} ms"
    )


def rounded(seconds: list[float]) -> list[float]:
    return [round(value, 3) for value in seconds]


class Phases:
    """Runs the phases of a test one after the other and remembers when each was."""

    def __init__(self) -> None:
        self.spans: dict[str, tuple[float, float]] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        result = work()
        self.spans[name] = (began, time.monotonic())
        print(f"  {name}: {self.spans[name][1] - began:.2f} s")
        return result

    def tell(self, what: str, found: list[tuple[float, float]]) -> None:
        for name, (first, last) in self.spans.items():
            if values := [took for at, took in found if first <= at <= last]:
                tell(f"{what}, {name}", values)


def large(count: int) -> None:
    with stand(delay=0.1, concurrency=256) as (_, daemon):
        key = daemon.new_key()
        cpu = psutil.Process(daemon.process.pid).cpu_times
        phases = Phases()
        with daemon.client(key) as client:
            first = client.post("/v1/batches", json={"requests": [chat("q", "hello")]}).json()["id"]
            body = body_of(count)
            print(f"  {len(body) / 2**20:.1f} MiB in one create")
            pollers = [Poller(daemon.port, key, path) for path in (f"/v1/batches/{first}", "/healthz")]
            time.sleep(1)
            created = phases.run("create", lambda: client.post("/v1/batches", content=body).raise_for_status().json())
            print(f"  peak memory after it: {peak_mib(daemon):.0f} MiB")
            before = sum(cpu()[:2])
            batch = phases.run("dispatch", lambda: finished(client, created["id"], timeout=600))
            print(f"  daemon: {(sum(cpu()[:2]) - before) / count * 1e6:.0f} us CPU a request")
            assert batch["request_counts"]["completed"] == count
            paged = phases.run("paged", lambda: results(client, created["id"]))
            assert [result["custom_id"] for result in paged] == [f"q-{n}" for n in range(count)]
            exported = phases.run("export", lambda: client.get(f"/v1/batches/{created['id']}/output.jsonl").read())
            assert exported.count(b"\n") == count
            for name, poller in zip(("GET a batch", "GET /healthz"), pollers, strict=True):
                phases.tell(name, poller.stop())
        print(f"  peak memory: {peak_mib(daemon):.0f} MiB")


def behind(count: int, rounds: int = 7) -> None:
    with stand(delay=0.1, concurrency=256) as (_, daemon):
        with daemon.client(daemon.new_key()) as client, daemon.client(daemon.new_key()) as other:

            def small() -> float:
                began = time.monotonic()
                body = {"requests": [chat(f"s-{n}", f"small {n}") for n in range(20)]}
                finished(other, other.post("/v1/batches", json=body).raise_for_status().json()["id"])
                return time.monotonic() - began

            small()
            alone = [small() for _ in range(rounds)]
            large_id = client.post("/v1/batches", content=body_of(count)).raise_for_status().json()["id"]
            time.sleep(1)
            after = [small() for _ in range(rounds)]
            assert client.get(f"/v1/batches/{large_id}").json()["request_counts"]["completed"] < count
        ratio = statistics.median(after) / statistics.median(alone)
        print(f"  alone {rounded(alone)} s, behind {rounded(after)} s: ratio of medians {ratio:.2f}")


def interactive(count: int, calls: int = 300) -> None:
    with stand(delay=0.2, concurrency=64, kind=ModelServerProcess) as (upstream, daemon):
        upstream.control(rules=[{"match": "stream", "action": {"pause": 0.01, "delay": 0}}])
        key = daemon.new_key()
        tell("an event straight from the model", straight := event_delays(upstream.port, key))
        tell("an event through the daemon", through := event_delays(daemon.port, key))
        print(f"  on top, p50: {(statistics.median(through) - statistics.median(straight)) * 1e3:.2f} ms")
        tell("calls without a batch", without := call_times(daemon.port, key, calls))
        with daemon.client(daemon.new_key()) as client:
            batch_id = client.post("/v1/batches", content=body_of(count)).raise_for_status().json()["id"]
            tell("calls with a batch running", beside := call_times(daemon.port, key, calls))
            tell("an event with a batch running", event_delays(daemon.port, key))
            assert client.get(f"/v1/batches/{batch_id}").json()["status"] == "in_progress"
        print(f"  ratio of p99: {percentile(beside, 0.99) / percentile(without, 0.99):.2f}")


def call(port: int, key: str, body: dict[str, Any]) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    return connection.getresponse()


def call_times(port: int, key: str, count: int, rate: float = 20) -> list[float]:
    """Make calls at random moments, so many a second; return how long each took."""
    chance, taken = random.Random(1), []

    def one() -> None:
        began = time.monotonic()
        answer = call(port, key, chat("", "interactive")["body"])
        assert answer.status == 200
        answer.read()
        taken.append(time.monotonic() - began)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
        time.sleep(chance.expovariate(rate))
    for thread in threads:
        thread.join()
    return taken


def event_delays(port: int, key: str, calls: int = 5) -> list[float]:
    """Seconds from the model's sending of an event to its arrival here."""
    delays = []
    for _ in range(calls):
        answer = call(port, key, chat("", "stream " + "word " * 100, stream=True)["body"])
        while line := answer.readline():
            if line.startswith(b"data: {"):
                sent_at = json.loads(line[6:]).get("sent_at")
                delays += [time.time() - sent_at] if sent_at else []
    return delays


def creates(count: int, at_once: int = 10) -> None:
    with stand(delay=0.1, concurrency=8) as (_, daemon):
        body, statuses = body_of(count), []
        keys = [daemon.new_key() for _ in range(at_once)]

        def create(key: str) -> None:
            with daemon.client(key) as client:
                statuses.append(client.post("/v1/batches", content=body).status_code)

        poller = Poller(daemon.port, keys[0], "/healthz")
        threads = [threading.Thread(target=create, args=(key,)) for key in keys]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(
            f"  answered {sorted(statuses)} in {time.monotonic() - began:.1f} s; peak memory {peak_mib(daemon):.0f} MiB"
        )
        assert set(statuses) <= {200, 503}
        tell("GET /healthz meanwhile", [took for _, took in poller.stop()])


def main() -> None:
    parts = {"large": large, "behind": behind, "interactive": interactive, "creates": creates}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(parts))
    parser.add_argument("--requests", type=int, default=50_000)
    options = parser.parse_args()
    for name in options.parts:
        print(name)
        parts[name](options.requests)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--poll"]:
        poll(int(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5]))
    else:
        main()
