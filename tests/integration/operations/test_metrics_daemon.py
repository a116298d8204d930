"""The metrics page of a real daemon: numbers that agree with what was done, Prometheus' own opinion of the page."""

import signal
import socket
import subprocess

import httpx2
import pytest
from daemons import DaemonProcess, ModelServerProcess, chat, finished, free_port, until
from hook_receiver import hook_receiver
from prometheus_text import Scrape

CONFIG = """
[storage]
min_free_bytes = 0
[metrics]
listen = "127.0.0.1:{port}"
[batches]
retry_base_s = 0.01
retry_cap_s = 0.01
max_attempts = 2
[extensions]
webhooks = true
[webhooks]
allow_private_addresses = true
[tiers.admin]
daily_quota_usd = "0.00001"
[[models]]
id = "m"
concurrency = 4
capacity = 16
price_usd_per_million = {{ input = "1", output = "2" }}
[[models.upstreams]]
url = "{upstream}/v1"
[[models.upstreams]]
url = "http://127.0.0.1:9/v1"
"""


@pytest.fixture
def site(tmp_path, processes):
    """(daemon, model server, port of the metrics page)"""
    upstream = ModelServerProcess()
    processes.append(upstream)
    port = free_port()
    daemon = DaemonProcess(tmp_path, CONFIG.format(upstream=upstream.url, port=port))
    processes.append(daemon)
    return daemon, upstream, port


def test_numbers_agree_with_what_was_done(site):
    daemon, upstream, port = site
    upstream.control(rules=[{"match": "fail", "action": {"status": 500}}])
    with daemon.client(daemon.new_key()) as client:
        requests = [chat(f"q{n}", f"say {n}") for n in range(10)] + [chat("bad", "fail")]
        batch = client.post("/v1/batches", json={"requests": requests}).raise_for_status().json()
        ended = finished(client, batch["id"])
        assert ended["request_counts"] == {"total": 11, "completed": 10, "failed": 1}
        client.post("/v1/chat/completions", json=chat("", "hello")["body"]).raise_for_status()
        client.get("/v1/nothing-here")
        client.request("BREW", "/v1/batches")
        with socket.create_connection(("127.0.0.1", daemon.port)) as raw:
            raw.sendall(b"POST /v1/batches HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n")
            assert raw.recv(12) == b"HTTP/1.1 413"
        until(lambda: Scrape(port)("event_loop_lag_seconds_count") > 0)  # it is measured four times a second
        page = Scrape(port)
    attempts_agree(page)
    calls_agree(page)
    states_agree(page, upstream)


def attempts_agree(page):
    assert page("attempts_total", model="m", way="batch", outcome="completed") == 10
    assert page("attempts_total", model="m", way="batch", outcome="upstream_error") == 2
    assert page("attempts_total", model="m", way="interactive", outcome="completed") == 1
    assert page("tokens_total", model="m", way="batch", kind="input") == 100
    assert page("tokens_total", model="m", way="batch", kind="cached") == 0
    assert page("tokens_total", model="m", way="interactive", kind="output") == 5
    assert page("cost_usd_total", model="m", way="batch") == pytest.approx(10 * 20e-6)
    assert page("upstream_duration_seconds_count", model="m") == 13
    assert page("batches_ended_total", status="completed") == 1
    assert page("batches_ended_total") == 1
    assert page("batch_requests_ended_total", status="completed") == 10
    assert page("batch_requests_ended_total", status="failed") == 1
    assert page("outcome_group_size_sum") == 12
    assert page("outcomes_waiting") == 0
    assert page("claimed", model="m") == 0


def calls_agree(page):
    assert page("http_requests_total", method="POST", route="/v1/batches", status="200") == 1
    assert page("http_requests_total", method="GET", route="other", status="404") == 1
    assert page("http_requests_total", method="other", status="405") == 1
    assert page("http_request_duration_seconds_count", route="/v1/chat/completions") == 1
    assert page("http_refused_total", status="413") == 1
    assert page("http_connections") >= 1


def states_agree(page, upstream):
    assert page("upstream_up", upstream="http://127.0.0.1:9/v1") == 0, "nothing listens there"
    assert page("upstream_up", upstream=f"{upstream.url}/v1") == 1
    assert page("upstream_paused") == 0
    assert page("upstream_in_flight") == 0
    assert page("batch_concurrency_limit", model="m") == 4
    assert page("capacity", model="m") == 16
    assert page("store_duration_seconds_count", kind="write") > 5
    assert page("store_unavailable_total") == 0
    assert page("part_restarts_total", part="recorder") == 0
    assert page("build_info") == page("ready") == page("store_up") == page("store_has_room") == 1
    assert page.samples["process_resident_memory_bytes", ()] > 10e6


def test_what_is_unfinished(site):
    daemon, upstream, port = site
    upstream.control(rules=[{"match": "say", "action": {"hang": True}}])
    with daemon.client(daemon.new_key()) as client:
        client.post("/v1/batches", json={"requests": [chat(f"q{n}", "say") for n in range(10)]}).raise_for_status()
        until(lambda: upstream.stats()["in_flight"].get("m", 0) == 4)
        page = Scrape(port)
    assert page("in_flight", model="m", way="batch") == 4
    assert page("in_flight", model="m", way="interactive") == 0
    assert page("upstream_in_flight", upstream=f"{upstream.url}/v1") == 4
    # The store is asked every few seconds; this page was the first.
    assert page("batches", status="in_progress") == 1
    assert page("batches", status="validating") == 0
    assert page("requests_queued", model="m") == 6
    assert page("requests_running") == 4
    assert 0 < page("queue_age_seconds", model="m") < 60
    assert page("batches_waiting", model="m", reason="quota") == 0


def test_batches_that_wait_for_their_quota(site):
    daemon, _upstream, port = site
    with daemon.client(daemon.new_key("admin")) as client:
        requests = [chat(f"q{n}", "say") for n in range(40)]
        batch = client.post("/v1/batches", json={"requests": requests}).raise_for_status().json()
        until(lambda: Scrape(port)("batches_waiting", model="m", reason="quota") == 1)
        client.post(f"/v1/batches/{batch['id']}/cancel").raise_for_status()
        until(lambda: Scrape(port)("batches_waiting") == 0)


def test_webhooks(site):
    daemon, _upstream, port = site
    with hook_receiver() as receiver, daemon.client(daemon.new_key()) as client:
        client.put("/v1/batch_webhook", json={"url": receiver.url}).raise_for_status()
        client.post("/v1/batch_webhook/test").raise_for_status()
        batch = client.post("/v1/batches", json={"requests": [chat("q", "say")]}).raise_for_status().json()
        finished(client, batch["id"])
        until(lambda: Scrape(port)("webhooks_attempts_total", outcome="delivered") == 1)
        page = Scrape(port)
    assert page("webhooks_attempts_total", outcome="delivered") == 1
    assert page("webhooks_attempts_total") == 1
    assert page("webhooks_duration_seconds_count") == 1


def test_a_failed_reload_shows(site):
    daemon, _upstream, port = site
    assert Scrape(port)("config_reload_successful") == 1
    text = daemon.config.read_text()
    daemon.config.write_text(text + "\n[nonsense]\n")
    daemon.signal(signal.SIGHUP)
    until(lambda: Scrape(port)("config_reload_successful") == 0)
    daemon.config.write_text(text)
    daemon.signal(signal.SIGHUP)
    until(lambda: Scrape(port)("config_reload_successful") == 1)


def test_prometheus_has_nothing_to_say_against_it(site, needs):
    promtool = needs("promtool")
    _daemon, _upstream, port = site
    page = Scrape(port)
    assert page.content_type.startswith("text/plain; version=0.0.4")
    done = subprocess.run([promtool, "check", "metrics"], input=page.text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_other_paths_and_methods(site):
    _daemon, _upstream, port = site
    base = f"http://127.0.0.1:{port}"
    assert httpx2.get(f"{base}/").status_code == 404
    assert httpx2.get(f"{base}/v1/models").status_code == 404
    assert httpx2.post(f"{base}/metrics").status_code == 405
    assert httpx2.head(f"{base}/metrics").content == b""
    openmetrics = httpx2.get(f"{base}/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")


def test_a_page_that_cannot_be_had_ends_nothing(site, tmp_path, processes):
    _daemon, upstream, port = site
    (tmp_path / "second").mkdir()
    second = DaemonProcess(tmp_path / "second", CONFIG.format(upstream=upstream.url, port=port))
    processes.append(second)
    (line,) = [line for line in second.log_lines() if line["event"] == "THERE IS NO METRICS PAGE"]
    assert line["level"] == "error"
    assert line["problem"] == f"metrics.listen[0]: '127.0.0.1:{port}' is in use by another process"
    with second.client(second.new_key()) as client:
        batch = client.post("/v1/batches", json={"requests": [chat("q", "say")]}).raise_for_status().json()
        assert finished(client, batch["id"])["status"] == "completed"
