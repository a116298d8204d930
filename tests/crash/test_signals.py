"""SIGTERM drains, a second one ends at once; neither loses anything."""

import signal
import threading

import httpx2
import pytest
from daemons import DaemonProcess, ModelServerProcess, chat, finished, results, until

CONFIG = """
drain_s = {drain_s}
[storage]
url = "{storage}"
min_free_bytes = 0
[batches]
retry_base_s = 0.05
retry_cap_s = 0.5
[[models]]
id = "m"
concurrency = 16
price_usd_per_million = {{ input = "1", output = "2" }}
[[models.upstreams]]
url = "{upstream}/v1"
"""

LONG_S = 600
"""Far longer than a daemon is waited for."""


def start(tmp_path, processes, storage, *, delay: float, drain_s: float):
    upstream = ModelServerProcess(delay=delay)
    processes.append(upstream)
    daemon = DaemonProcess(tmp_path, CONFIG.format(storage=storage, upstream=upstream.url, drain_s=drain_s))
    processes.append(daemon)
    key = daemon.new_key()
    with daemon.client(key) as client:
        body = {"requests": [chat(f"q{number}", f"say {number}") for number in range(40)]}
        batch_id = client.post("/v1/batches", json=body).raise_for_status().json()["id"]
        until(lambda: upstream.stats()["in_flight"].get("m", 0) >= 16)
    return upstream, daemon, key, batch_id


@pytest.mark.slow
def test_sigterm_lets_running_requests_finish(tmp_path, processes, storage):
    upstream, daemon, key, batch_id = start(tmp_path, processes, storage, delay=3, drain_s=LONG_S)
    asked = upstream.stats()["asked"]
    assert daemon.terminate() == 0
    log = upstream.log_entries()
    assert len(log) <= asked + 16, "nothing was claimed any more"
    assert all(entry["answer"] for entry in log), "what ran was finished"
    upstream.control(delay=0)
    daemon = daemon.restart()
    processes.append(daemon)
    with daemon.client(key) as client:
        batch = finished(client, batch_id)
        assert batch["request_counts"] == {"total": 40, "completed": 40, "failed": 0}
        assert batch["cost_unknown_attempts"] == 0
    assert len(upstream.log_entries()) == 40, "nothing ran twice"


@pytest.mark.slow
def test_what_does_not_finish_in_time_is_given_back(tmp_path, processes, storage):
    upstream, daemon, key, batch_id = start(tmp_path, processes, storage, delay=LONG_S, drain_s=0.5)
    assert daemon.terminate() == 0
    upstream.control(delay=0)
    daemon = daemon.restart()
    processes.append(daemon)
    with daemon.client(key) as client:
        batch = finished(client, batch_id)
        assert batch["request_counts"] == {"total": 40, "completed": 40, "failed": 0}
        assert batch["cost_unknown_attempts"] == 16, "each was sent, and its answer lost"
        assert all(result["status"] == "completed" for result in results(client, batch_id))


@pytest.mark.slow
def test_a_second_signal_ends_at_once(tmp_path, processes, storage):
    upstream, daemon, key, batch_id = start(tmp_path, processes, storage, delay=LONG_S, drain_s=LONG_S)
    daemon.signal(signal.SIGTERM)
    while True:  # until the first one is heeded: the listener closes
        try:
            httpx2.get(f"{daemon.base}/healthz")
        except httpx2.TransportError:
            break
    assert daemon.terminate() == 0
    upstream.control(delay=0)
    daemon = daemon.restart()
    processes.append(daemon)
    with daemon.client(key) as client:
        batch = finished(client, batch_id)
        assert batch["request_counts"]["completed"] == 40
        assert batch["cost_unknown_attempts"] == 16


@pytest.mark.slow
def test_a_client_that_waits_is_answered_while_draining(tmp_path, processes, storage):
    upstream, daemon, key, _batch_id = start(tmp_path, processes, storage, delay=2, drain_s=LONG_S)
    answers: list[int] = []

    def call() -> None:
        with daemon.client(key) as client:
            answers.append(client.post("/v1/chat/completions", json=chat("", "hello")["body"]).status_code)

    caller = threading.Thread(target=call)
    caller.start()
    until(lambda: "hello" in [entry["content"] for entry in upstream.log_entries()])
    assert daemon.terminate() == 0
    caller.join()
    assert answers == [200]


@pytest.mark.slow
def test_a_second_daemon_on_the_same_file_refuses_to_start(tmp_path, processes):
    upstream = ModelServerProcess()
    processes.append(upstream)
    config = CONFIG.format(storage="sqlite:fibatchd.db", upstream=upstream.url, drain_s=1)
    daemon = DaemonProcess(tmp_path, config)
    processes.append(daemon)
    with pytest.raises(RuntimeError, match="another fibatchd serves"):
        DaemonProcess(tmp_path, config)
