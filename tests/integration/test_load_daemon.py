"""A running daemon whose configuration changes while it works, and that yields to interactive load, its own and others'."""

import signal
import threading
import time

import pytest
from daemons import DaemonProcess, ModelServerProcess, chat, closing_all, finished, results, until

pytestmark = pytest.mark.slow

HEAD = """
[storage]
min_free_bytes = 0
[batches]
retry_base_s = 0.05
retry_cap_s = 0.2
"""
MODEL = """
[[models]]
id = "{id}"
concurrency = {concurrency}
{more}
[[models.upstreams]]
url = "{url}/v1"
"""


def model(name, server, *, concurrency=8, more="", metrics=False):
    text = MODEL.format(id=name, url=server.url, concurrency=concurrency, more=more)
    return text + (f'metrics_url = "{server.url}/metrics"\n' if metrics else "")


@pytest.fixture
def processes():
    with closing_all() as found:
        yield found


def start(tmp_path, processes, config, *, delay=0.05):
    upstream = ModelServerProcess(delay=delay)
    processes.append(upstream)
    daemon = DaemonProcess(tmp_path, HEAD + config(upstream))
    processes.append(daemon)
    return upstream, daemon


def create(client, count, name="m"):
    requests = [chat(f"q{number}", f"batched {number}", model=name) for number in range(count)]
    return client.post("/v1/batches", json={"requests": requests}).raise_for_status().json()["id"]


def write(daemon, text):
    """Put this below the configuration's [server], at once, for the daemon may be reading it."""
    fresh = daemon.config.with_suffix(".new")
    fresh.write_text(daemon.config.read_text().partition(HEAD)[0] + HEAD + text)
    fresh.replace(daemon.config)


def reload(daemon, text):
    """Give the daemon this configuration; return what it says of it."""
    told = ("reloaded", "reload failed, the old configuration stays")
    before = len([line for line in daemon.log_lines() if line["event"] in told])
    write(daemon, text)
    daemon.signal(signal.SIGHUP)
    until(lambda: len([line for line in daemon.log_lines() if line["event"] in told]) > before)
    return [line for line in daemon.log_lines() if line["event"] in told][-1]


def test_sighup_under_load(tmp_path, processes):
    upstream, daemon = start(tmp_path, processes, lambda up: model("m", up) + model("goes", up, concurrency=2))
    with daemon.client(daemon.new_key()) as client:
        batch_id, goes = create(client, 500), create(client, 60, "goes")
        until(lambda: upstream.stats()["asked"] > 50)
        assert reload(daemon, "[tiers.internal]\nbatch_concurrency = none\n")["event"].startswith("reload failed")
        failed = reload(daemon, model("m", upstream, concurrency=0) + "[batchse]\n")
        assert any(problem.startswith("models[0].concurrency: ") for problem in failed["problems"])
        assert any("batches" in problem for problem in failed["problems"])
        assert client.get("/v1/models/goes").status_code == 200, "the old one stays"
        price = 'price_usd_per_million = { input = "1000", output = "0" }'
        fresh = model("m", upstream, concurrency=16, more=price) + model("new", upstream)
        assert reload(daemon, fresh)["models"] == ["m", "new"]
        assert finished(client, create(client, 20, "new"))["request_counts"]["completed"] == 20
        assert client.get("/v1/models/goes").status_code == 404
        batch, gone = finished(client, batch_id), finished(client, goes)
        assert batch["request_counts"] == {"total": 500, "completed": 500, "failed": 0}
        assert 0 < batch["cost_usd"] < 500 * 0.01, "priced from the reload on"
        assert gone["request_counts"]["completed"] + gone["request_counts"]["failed"] == 60
        codes = {result["error"]["code"] for result in results(client, goes) if result["error"]}
        assert codes == {"model_not_found"}
        assert batch["cost_unknown_attempts"] == gone["cost_unknown_attempts"] == 0
    assert upstream.stats()["max_in_flight"]["m"] > 8
    asked = [entry["content"] for entry in upstream.log_entries() if entry["model"] == "m"]
    assert len(asked) == len(set(asked)) == 500, "nothing was dropped, nothing ran twice"


def test_switches_are_read_again(tmp_path, processes):
    upstream, daemon = start(tmp_path, processes, lambda up: model("m", up))
    with daemon.client(daemon.new_key()) as client:
        batch_id = create(client, 100)
        off = f"enabled = false\n{model('m', upstream)}"
        assert reload(daemon, off)["event"] == "reloaded"
        assert client.get(f"/v1/batches/{batch_id}").status_code == 404
        assert client.post("/v1/chat/completions", json=chat("", "hello")["body"]).status_code == 200
        until(lambda: upstream.stats()["asked"] == 101)
        assert reload(daemon, model("m", upstream))["event"] == "reloaded"
        assert finished(client, batch_id)["request_counts"]["completed"] == 100


def test_many_reloads_at_once(tmp_path, processes):
    upstream, daemon = start(tmp_path, processes, lambda up: model("m", up))
    with daemon.client(daemon.new_key()) as client:
        batch_id = create(client, 300)
        for concurrency in range(1, 30):
            write(daemon, model("m", upstream, concurrency=concurrency))
            daemon.signal(signal.SIGHUP)
        reload(daemon, model("m", upstream, concurrency=64))
        batch = finished(client, batch_id)
        assert (batch["request_counts"]["completed"], batch["cost_unknown_attempts"]) == (300, 0)


def test_batches_yield_to_interactive_requests(tmp_path, processes):
    upstream, daemon = start(tmp_path, processes, lambda up: model("m", up, more="capacity = 8"))
    upstream.control(rules=[{"match": "interactive", "action": {"delay": 3}}])
    with daemon.client(daemon.new_key()) as client:
        batch_id = create(client, 2000)
        until(lambda: upstream.stats()["asked"] > 20)

        def call(number):
            body = chat("", f"interactive {number}")["body"]
            assert client.post("/v1/chat/completions", json=body).status_code == 200

        callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        ended = time.time()
        until(lambda: upstream.log_entries()[-1]["at"] > ended)
        client.post(f"/v1/batches/{batch_id}/cancel").raise_for_status()
    log = upstream.log_entries()
    arrived = max(entry["at"] for entry in log if entry["content"].startswith("interactive"))
    starts = [entry["at"] for entry in log if entry["content"].startswith("batched") and entry["at"] > arrived]
    # What was on its way to the model server when the eighth call came may arrive a moment after it.
    assert [at for at in starts if arrived + 0.1 < at < arrived + 3] == []
    assert min(at for at in starts if at > arrived + 0.1) >= arrived + 3 + 0.9


def test_batches_yield_to_what_others_do_on_the_upstream(tmp_path, processes):
    upstream, daemon = start(
        tmp_path, processes, lambda up: model("m", up, concurrency=8, more="capacity = 8", metrics=True)
    )
    with daemon.client(daemon.new_key()) as client:
        batch_id = create(client, 5000)
        until(lambda: upstream.stats()["in_flight"].get("m", 0) == 8)
        upstream.control(others=8)
        time.sleep(2.5)  # until the page has been read
        asked = upstream.stats()["asked"]
        time.sleep(1.5)  # and again
        assert upstream.stats()["asked"] == asked
        upstream.control(others=3)
        until(lambda: upstream.stats()["in_flight"]["m"] == 5)
        upstream.control(others=0)
        until(lambda: upstream.stats()["in_flight"]["m"] == 8)
        client.post(f"/v1/batches/{batch_id}/cancel").raise_for_status()
