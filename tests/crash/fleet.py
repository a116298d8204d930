"""Several real daemons on one PostgreSQL and one model server: what the tests of daemons together act on and look at."""

import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from daemons import DaemonProcess, ModelServerProcess, chat, finished, results

CONFIG = """
drain_s = 20
[storage]
url = "{storage}"
[batches]
max_unfinished_batches = {max_batches}
max_unfinished_requests = {max_requests}
retry_base_s = 0.05
retry_cap_s = 0.5
[tiers.internal]
batch_concurrency = 1000
[[models]]
id = "m"
concurrency = {concurrency}
{model}
price_usd_per_million = {{ input = "1", output = "2" }}
[[models.upstreams]]
url = "{upstream}/v1"
model = "up"
"""
LEASE_S = 5.0


class ShortLeased(DaemonProcess):
    """A daemon whose leases are short."""

    lease_s = LEASE_S

    def command(self, *words):
        return [
            sys.executable,
            str(Path(__file__).parent / "short_lease.py"),
            str(self.lease_s),
            *words,
            "--config",
            str(self.config),
        ]


@dataclass
class Batch:
    """One that was created: whose key reads it, and what was asked."""

    id: str
    key: str
    prompts: list[str]


@dataclass
class Fleet:
    """The daemons, in a list that restarts replace, and the batches made on them."""

    storage: str
    upstream: ModelServerProcess
    daemons: list[DaemonProcess]
    concurrency: int
    processes: list
    batches: list[Batch] = field(default_factory=list)

    def __getitem__(self, index):
        return self.daemons[index]

    def replace(self, index, *, wait=True):
        """Start a daemon again that has ended."""
        self.daemons[index] = self.daemons[index].start_again()
        self.processes.append(self.daemons[index])
        if wait:
            self.daemons[index].wait_ready()

    def new_key(self):
        return self[0].new_key()

    def create(self, index, key, count):
        """Create a batch on one of the daemons; return its id."""
        name = f"b{len(self.batches)}"
        prompts = [f"{name} say {number}" for number in range(count)]
        with self[index].client(key) as client:
            body = {"requests": [chat(f"q{number}", prompt) for number, prompt in enumerate(prompts)]}
            batch = client.post("/v1/batches", json=body).raise_for_status().json()
        self.batches.append(Batch(batch["id"], key, prompts))
        return batch["id"]

    def finish(self, *, timeout=120):
        """Wait for all batches and check each; return what they say. Different daemons are asked."""
        found = []
        for number, batch in enumerate(self.batches):
            with self[number % len(self.daemons)].client(batch.key) as client:
                found.append(finished(client, batch.id, timeout=timeout))
        log = self.upstream.log_entries()
        answers: dict[str, set[str]] = {}
        for entry in log:
            if entry["answer"] is not None:
                answers.setdefault(entry["content"], set()).add(entry["answer"].replace('"up"', '"m"'))
        for number, (batch, said) in enumerate(zip(self.batches, found, strict=True)):
            with self[-1 - number % len(self.daemons)].client(batch.key) as client:
                check(batch, said, results(client, batch.id), answers)
        asked = Counter(entry["content"] for entry in log)
        assert max(asked.values()) <= 8
        assert sum(b["cost_unknown_attempts"] for b in found) >= len(log) - sum(len(b.prompts) for b in self.batches)
        assert self.upstream.stats()["max_in_flight"]["up"] <= self.concurrency
        return found


def check(batch, said, found, answers):
    """One result for each request, byte for byte one that the upstream gave for it."""
    total = len(batch.prompts)
    assert said["status"] == "completed"
    assert said["request_counts"] == {"total": total, "completed": total, "failed": 0}
    assert said["usage"] == {"input_tokens": 10 * total, "output_tokens": 5 * total, "total_tokens": 15 * total}
    assert [result["custom_id"] for result in found] == [f"q{number}" for number in range(total)]
    for prompt, result in zip(batch.prompts, found, strict=True):
        assert json.dumps(result["response"]["body"]) in answers[prompt]


def start(
    folder,
    processes,
    storage,
    *,
    count=3,
    concurrency=64,
    delay=0.1,
    kind=ShortLeased,
    model="",
    max_batches=100,
    max_requests=1_000_000,
):
    """Start a model server and so many daemons, all at once: the first to come migrates the database."""
    upstream = ModelServerProcess(delay=delay, jitter=0.3)
    processes.append(upstream)
    fleet = Fleet(storage, upstream, [], concurrency, processes)
    for index in range(count):
        home = folder / f"daemon-{index}"
        home.mkdir()
        config = CONFIG.format(
            storage=storage,
            upstream=upstream.url,
            concurrency=concurrency,
            model=model,
            max_batches=max_batches,
            max_requests=max_requests,
        )
        daemon = kind(home, config, wait=False)
        processes.append(daemon)
        fleet.daemons.append(daemon)
    for daemon in fleet.daemons:
        daemon.wait_ready()
    return fleet
