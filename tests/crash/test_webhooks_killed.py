"""kill -9 between a batch's end and the delivery of its event: every event arrives, under one id."""

import random
import signal
import time
from collections import defaultdict

import pytest
from daemons import DaemonProcess, ModelServerProcess, chat, finished
from hook_receiver import HookReceiver, hook_receiver

CONFIG = """
[storage]
url = "{storage}"
min_free_bytes = 0
[metrics]
listen = ""
[extensions]
webhooks = true
[webhooks]
allow_private_addresses = true
retry_base_s = 0.05
retry_cap_s = 0.5
[batches]
max_unfinished_batches = 1000
[[models]]
id = "m"
concurrency = 16
upstreams = [{{ url = "{upstream}/v1" }}]
"""


@pytest.fixture
def receiver():
    with hook_receiver() as running:
        running.holding = True
        yield running


def kill_before_delivery(daemon: DaemonProcess, client, receiver: HookReceiver, chance: random.Random) -> str:
    """End a batch and kill the daemon before its event is delivered; return the batch's id."""
    body = {"requests": [chat(f"q{number}", f"say {number}") for number in range(5)]}
    batch_id = client.post("/v1/batches", json=body).raise_for_status().json()["id"]
    if chance.random() < 0.5:
        finished(client, batch_id)
        receiver.event_of(batch_id)  # sent, and not answered
    else:
        time.sleep(chance.uniform(0, 0.2))  # about when it ends: the moment of the kill is what varies
    daemon.signal(signal.SIGKILL)
    daemon.wait()
    receiver.release(batch_id)
    return str(batch_id)


def kill_through(tmp_path, processes, storage, receiver, *, kills: int) -> None:
    chance = random.Random(time.time_ns())
    upstream = ModelServerProcess(delay=0.02, jitter=0.9)
    processes.append(upstream)
    daemon = DaemonProcess(tmp_path, CONFIG.format(storage=storage, upstream=upstream.url))
    processes.append(daemon)
    key = daemon.new_key()
    batches = []
    for number in range(kills):
        with daemon.client(key) as client:
            if number == 0:
                client.put("/v1/batch_webhook", json={"url": receiver.url}).raise_for_status()
            batches.append(kill_before_delivery(daemon, client, receiver, chance))
        daemon = daemon.restart()
        processes.append(daemon)
    for batch_id in batches:
        receiver.event_of(batch_id)
    with daemon.client(key) as client:
        check(client, batches, receiver)


def check(client, batches: list[str], receiver: HookReceiver) -> None:
    deadline = time.monotonic() + 60
    while True:
        events = client.get("/v1/batch_webhook/events", params={"limit": 100}).raise_for_status().json()["data"]
        if all(event["status"] == "delivered" for event in events):
            break
        assert time.monotonic() < deadline, events
        time.sleep(0.05)  # the API is polled, as its users do
    sent = defaultdict(set)
    for post in receiver.posts:
        sent[post.event["data"]["id"]].add(post.id)
    assert sorted(sent) == sorted(batches)
    assert all(len(ids) == 1 for ids in sent.values())
    assert sorted(event["data"]["id"] for event in events) == sorted(batches)


@pytest.mark.slow
def test_killed_five_times(tmp_path, processes, storage, receiver):
    kill_through(tmp_path, processes, storage, receiver, kills=5)


@pytest.mark.torture
def test_killed_fifty_times(tmp_path, processes, storage, receiver):
    kill_through(tmp_path, processes, storage, receiver, kills=50)
