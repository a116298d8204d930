"""kill -9 at random moments: nothing is lost, nothing is answered twice, and what cannot be known is said to be unknown."""

import json
import random
import signal
import time
from collections import Counter

import daemons
import pytest
from daemons import DaemonProcess, ModelServerProcess, chat, finished, results

CONFIG = """
[storage]
url = "{storage}"
min_free_bytes = 0
[batches]
retry_base_s = 0.05
retry_cap_s = 0.5
[[models]]
id = "m"
concurrency = 64
price_usd_per_million = {{ input = "1", output = "2" }}
[[models.upstreams]]
url = "{upstream}/v1"
model = "up"
"""


def kill_through(tmp_path, processes, storage, *, requests: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    upstream = ModelServerProcess(delay=0.02, jitter=0.5)
    processes.append(upstream)
    daemon = DaemonProcess(tmp_path, CONFIG.format(storage=storage, upstream=upstream.url))
    processes.append(daemon)
    key = daemon.new_key()
    with daemon.client(key) as client:
        body = {"requests": [chat(f"q{number}", f"say {number}") for number in range(requests)]}
        batch_id = client.post("/v1/batches", json=body).raise_for_status().json()["id"]
    for _ in range(kills):
        time.sleep(chance.uniform(0.05, 0.6))  # the moment of the kill is what varies
        daemon.signal(signal.SIGKILL)
        daemon = daemon.restart()
        processes.append(daemon)
    with daemon.client(key) as client:
        batch = finished(client, batch_id, timeout=240)
        check(batch, results(client, batch_id), upstream.log_entries(), requests)


def check(batch, found, log, requests: int) -> None:
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": requests, "completed": requests, "failed": 0}
    assert [result["custom_id"] for result in found] == [f"q{number}" for number in range(requests)]
    answers: dict[str, set[str]] = {}
    for entry in log:
        if entry["answer"] is not None:
            answers.setdefault(entry["content"], set()).add(entry["answer"])
    for number, result in enumerate(found):
        given = {answer.replace('"up"', '"m"') for answer in answers[f"say {number}"]}
        assert json.dumps(result["response"]["body"]) in given, "not an answer the upstream gave for this request"
    asked = Counter(entry["content"] for entry in log)
    assert max(asked.values()) <= 8
    # Every attempt that was not answered for good was cut; one cut before it was sent is counted as well.
    assert batch["cost_unknown_attempts"] >= len(log) - requests
    assert batch["usage"] == {
        "input_tokens": 10 * requests,
        "output_tokens": 5 * requests,
        "total_tokens": 15 * requests,
    }
    assert batch["cost_usd"] == pytest.approx(requests * 20 / 1e6)


@pytest.mark.slow
def test_killed_three_times(tmp_path, processes, storage):
    kill_through(tmp_path, processes, storage, requests=5000, kills=3, seed=time.time_ns())


@pytest.mark.torture
@pytest.mark.parametrize("round_", range(5))
def test_killed_twenty_times(tmp_path, processes, storage, round_):
    kill_through(tmp_path, processes, storage, requests=5000, kills=20, seed=time.time_ns() + round_)


@pytest.mark.slow
def test_a_create_call_that_was_cut_left_a_whole_batch_or_none(tmp_path, processes, storage):
    upstream = ModelServerProcess()
    processes.append(upstream)
    daemon = DaemonProcess(tmp_path, CONFIG.format(storage=storage, upstream=upstream.url))
    processes.append(daemon)
    key = daemon.new_key()
    body = json.dumps({"requests": [chat(f"q{number}", f"say {number}") for number in range(20_000)]}).encode()
    for wait in (0.05, 0.15, 0.3, 0.5):
        with daemon.client(key) as client:
            answered = _create_and_kill(daemon, client, body, wait)
        daemon = daemon.restart()
        processes.append(daemon)
        with daemon.client(key) as client:
            listed = client.get("/v1/batches").raise_for_status().json()["data"]
            assert len(listed) >= answered
            for batch in listed:
                assert batch["request_counts"]["total"] == 20_000
                client.post(f"/v1/batches/{batch['id']}/cancel").raise_for_status()
                finished(client, batch["id"])
                client.delete(f"/v1/batches/{batch['id']}").raise_for_status()


def _create_and_kill(daemon: DaemonProcess, client: daemons.httpx2.Client, body: bytes, wait: float) -> int:
    """Create a batch and kill the daemon meanwhile; return how many creates it has answered."""
    import threading

    killer = threading.Timer(wait, daemon.signal, [signal.SIGKILL])
    killer.start()
    try:
        return int(client.post("/v1/batches", content=body).status_code == 200)
    except daemons.httpx2.TransportError:
        return 0
    finally:
        killer.join()
