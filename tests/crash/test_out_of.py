"""A daemon that runs out of what the system allows a process: it refuses what it cannot do, ends nothing, and recovers."""

import json
import resource
import socket
import threading
from collections import Counter

import psutil
import pytest
from daemons import ModelServerProcess, chat, finished
from history.stand import Daemon

CONFIG = """
[storage]
min_free_bytes = 0
[[models]]
id = "m"
concurrency = 8
upstreams = [{{ url = "{upstream}/v1" }}]
"""


def start(tmp_path, processes, limits=""):
    upstream = ModelServerProcess(delay=0.02)
    processes.append(upstream)
    daemon = Daemon(tmp_path, CONFIG.format(upstream=upstream.url), env={"FIBATCHD_LIMITS": limits})
    processes.append(daemon)
    return daemon, daemon.new_key()


def runs(client, count):
    """A batch runs to its end, no attempt being lost."""
    requests = [chat(f"q{number}", f"say {number}") for number in range(count)]
    batch = client.post("/v1/batches", json={"requests": requests}).raise_for_status().json()
    batch = finished(client, batch["id"])
    assert batch["request_counts"] == {"total": count, "completed": count, "failed": 0}
    assert batch["cost_unknown_attempts"] == 0


@pytest.mark.slow
def test_descriptors(tmp_path, processes):
    """More connections than there are descriptors: the longest idle give way, so that there are some for upstreams, the
    database, and whoever has something to say."""
    daemon, key = start(tmp_path, processes, "NOFILE=64")
    idle = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(200)]
    try:
        with daemon.client(key) as client:
            runs(client, 100)
    finally:
        for connection in idle:
            connection.close()
    with daemon.client(key) as client:
        runs(client, 100)
    assert not [line for line in daemon.log_lines() if line["level"] == "error"]
    assert daemon.terminate() == 0


def create_at_once(daemon, key, body, count):
    """So many creates of one body at once; how often each status was answered."""
    answers = Counter()

    def create():
        with daemon.client(key) as client:
            answers[client.post("/v1/batches", content=body).status_code] += 1

    threads = [threading.Thread(target=create) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def allow(daemon, more):
    """Let the daemon have so many bytes of address space more than it has now."""
    mapped = psutil.Process(daemon.process.pid).memory_info().vms
    _, most = resource.prlimit(daemon.process.pid, resource.RLIMIT_AS)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (mapped + more, most))


@pytest.mark.slow
def test_memory(tmp_path, processes):
    """Creates of 16 MiB, of which there is memory for none, then for some: the others are refused, small ones never are."""
    daemon, key = start(tmp_path, processes)
    large = json.dumps({"requests": [chat(f"q{n}", f"say {n} " + "x" * 16_000) for n in range(1000)]}).encode()
    with daemon.client(key) as client:
        allow(daemon, 64_000_000)
        assert create_at_once(daemon, key, large, 4) == {503: 4}
        runs(client, 100)
        allow(daemon, 192_000_000)
        answers = create_at_once(daemon, key, large, 4)
        assert set(answers) == {200, 503}
        for batch in client.get("/v1/batches").raise_for_status().json()["data"]:
            client.post(f"/v1/batches/{batch['id']}/cancel").raise_for_status()
        runs(client, 100)
    assert not [line for line in daemon.log_lines() if line["level"] == "error"]
    assert daemon.terminate() == 0
