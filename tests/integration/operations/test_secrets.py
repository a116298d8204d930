"""Nothing of what clients and operators trust the server with gets into its log or onto its metrics page: traffic of all kinds,
good and bad, at the most talkative log level, and then a search for all that was planted."""

import base64
import contextlib
import json
import re
import signal
import socket
from dataclasses import dataclass

import httpx2
import pytest
from daemons import ALL_BUT_CONSOLE, DaemonProcess, ModelServerProcess, chat, closing_all, finished, free_port, until
from hook_receiver import hook_receiver
from prometheus_text import Scrape

CONFIG = (
    """
trusted_proxies = ["127.0.0.1"]
[storage]
min_free_bytes = 0
[metrics]
listen = "127.0.0.1:{port}"
[log]
level = "debug"
[batches]
retry_base_s = 0.01
retry_cap_s = 0.01
max_attempts = 2
[webhooks]
allow_private_addresses = true
[[models]]
id = "m"
endpoints = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]
[[models.upstreams]]
url = "{upstream}/v1"
endpoints = ["/v1/chat/completions"]
api_key_env = "PLANTED_UPSTREAM_KEY"
headers = {{ "x-tenant" = "planted-header" }}
[[models]]
id = "refused"
[[models.upstreams]]
url = "{upstream}/v1"
model = "refused"
api_key_env = "PLANTED_UPSTREAM_KEY"
"""
    + ALL_BUT_CONSOLE
)
ANTHROPIC = {"anthropic-version": "2023-06-01"}
SECRETS = {
    "prompt": "planted-prompt", "answer": "planted-answer", "upstream error": "planted-error",
    "upstream key": "planted-upstream-key", "upstream header": "planted-header", "custom id": "planted-custom-id",
    "metadata": "planted-metadata", "hook": "planted-hook-path", "file name": "planted-file", "query": "planted-query",
}  # fmt: skip


@contextlib.contextmanager
def site(folder):
    """(daemon, model server, port of the metrics page)"""
    with closing_all() as processes:
        yield started(folder, processes)


def started(folder, processes):
    upstream = ModelServerProcess()
    processes.append(upstream)
    port = free_port()
    config = CONFIG.format(upstream=upstream.url, port=port)
    daemon = DaemonProcess(folder, config, env={"PLANTED_UPSTREAM_KEY": SECRETS["upstream key"]})
    processes.append(daemon)
    said = json.dumps({"error": {"message": f"{SECRETS['upstream error']}: {SECRETS['prompt']}"}})
    upstream.control(
        rules=[
            {"match": "bad request", "action": {"status": 400, "body": said}},
            {"match": "broken", "action": {"body": f"<html>{SECRETS['answer']}"}},
            {"match": "half", "action": {"close": "half"}},
            {"match": "server error", "action": {"status": 500, "body": said}},
            {"match": "refused", "action": {"status": 401, "body": said}},
        ]
    )
    return daemon, upstream, port


def prompts():
    yield from ("", "bad request", "broken", "half", "server error")


def asked(what):
    """A request's body; the model server answers with the prompt, so a result is as secret as that."""
    return chat("", f"{SECRETS['prompt']} {SECRETS['answer']} {what}")["body"]


def batches(client):
    """Batches of every form, of requests that succeed and fail in every way."""
    items = [
        {
            "custom_id": f"{SECRETS['custom id']}-{n}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": asked(what),
        }
        for n, what in enumerate(prompts())
    ]
    body = {"requests": [*items, chat("x", "x", model="refused")], "metadata": {"note": SECRETS["metadata"]}}
    yield client.post("/v1/batches", json=body, headers={"idempotency-key": SECRETS["custom id"]}).raise_for_status()
    lines = "\n".join(map(json.dumps, items)).encode()
    for content in (lines, lines + b'\n{"custom_id": "' + SECRETS["prompt"].encode()):
        files = {"file": (f"{SECRETS['file name']}.jsonl", content)}
        file = client.post("/v1/files", files=files, data={"purpose": "batch"}).raise_for_status().json()
        yield client.post(
            "/v1/batches",
            json={"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"},
        ).raise_for_status()
    messages = [
        {"custom_id": f"{SECRETS['custom id']}-{n}", "params": asked(what) | {"max_tokens": 5}}
        for n, what in enumerate(prompts())
    ]
    yield client.post("/v1/messages/batches", json={"requests": messages}, headers=ANTHROPIC).raise_for_status()


def bad_calls(daemon, client):
    """Calls that are refused, each with a secret where it is refused."""
    secret = SECRETS["prompt"]
    for content in (
        f'{{"requests": "{secret}"',
        json.dumps({"requests": [{"custom_id": secret, "body": {"model": secret}}]}),
        json.dumps({secret: 1}),
        json.dumps({"requests": [chat("a", secret, model=secret)]}),
        json.dumps({"requests": [chat("a", secret) | {secret: secret}]}),
    ):
        for path in ("/v1/batches", "/v1/chat/completions", "/v1/messages/batches", "/v1/embeddings", "/v1/responses"):
            assert client.post(path, content=content).status_code >= 400
    client.get(f"/v1/batches/{secret}?after={SECRETS['query']}")
    client.get("/v1/batches", params={"after": SECRETS["query"]})
    client.put("/v1/batch_webhook", json={"url": f"ftp://x/{SECRETS['hook']}"})
    client.post("/v1/files", content=secret, headers={"content-type": f"multipart/form-data; boundary={secret}"})
    key = client.headers["authorization"].removeprefix("Bearer ")
    client.get(f"/v1/{key}")
    client.get(f"/{key}/{key}", headers={"authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"})
    httpx2.get(f"{daemon.base}/v1/models", headers={"x-api-key": key[:-1], "forwarded": f"for={secret}"})
    for raw in (
        f"GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-length: {secret}\r\n\r\n",
        f"authorization: Bearer {key} {secret}\r\n\r\n",
        f"GET /v1/models HTTP/3.7\r\nx-api-key: {key}\r\n\r\n",
        f"POST /v1/batches HTTP/1.1\r\nhost: x\r\ntransfer-encoding: {secret}\r\n\r\n{secret}",
    ):
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as connection:
            connection.sendall(raw.encode())
            connection.recv(1000)


def interactive_calls(client):
    for what in prompts():
        for more in ({}, {"stream": True}):
            client.post("/v1/chat/completions", json=asked(what) | more).read()
            client.post("/v1/responses", json={"model": "m", "input": asked(what)["messages"]} | more).read()
            messages = asked(what) | {"max_tokens": 5} | more
            client.post("/v1/messages", json=messages, headers=ANTHROPIC).read()
        client.post("/v1/embeddings", json={"model": "m", "input": f"{SECRETS['prompt']} {what}"})


def traffic(client, daemon, hooks):
    """Everything that a client can do, and what comes of it; the webhook's secret is returned."""
    webhook = client.put("/v1/batch_webhook", json={"url": f"{hooks.url}/{SECRETS['hook']}"}).raise_for_status().json()
    made = [answer.json()["id"] for answer in batches(client)]
    bad_calls(daemon, client)
    interactive_calls(client)
    messages_batch = made.pop()
    hooks.event_of(messages_batch)
    assert SECRETS["answer"] in client.get(f"/v1/messages/batches/{messages_batch}/results", headers=ANTHROPIC).text
    for batch_id in made:
        ended = finished(client, batch_id)
        client.get(f"/v1/batches/{batch_id}/results").raise_for_status()
        if ended.get("output_file_id"):
            client.get(f"/v1/files/{ended['output_file_id']}/content").raise_for_status()
        hooks.event_of(batch_id)
    client.delete(f"/v1/batches/{made[0]}").raise_for_status()
    return webhook


def secrets_in(webhook):
    """All strings of a webhook's object that are secrets of its owner."""
    return {text for text in re.findall(r"whsec_[A-Za-z0-9+/=]+", json.dumps(webhook))}


@dataclass
class Afterwards:
    """What is left of it all: the daemon's log, its metrics pages, and what was planted."""

    log: str
    pages: list[str]
    planted: dict[str, str]


@pytest.fixture(scope="module")
def afterwards(tmp_path_factory):
    with site(tmp_path_factory.mktemp("secrets")) as (daemon, upstream, port), hook_receiver() as hooks:
        key = daemon.new_key()
        with daemon.client(key) as client:
            webhook = traffic(client, daemon, hooks)
            pages = [Scrape(port).text]
            end_badly(client, daemon, upstream, key)
            pages.append(Scrape(port).text)
        daemon.signal(signal.SIGTERM)
        until(lambda: '"stopping"' in daemon.output())
        daemon.signal(signal.SIGTERM)
        daemon.wait()
        hooks_secrets = {f"webhook secret {n}": text for n, text in enumerate(secrets_in(webhook))}
        yield Afterwards(daemon.output(), pages, {"key": key, **hooks_secrets, **SECRETS})


def end_badly(client, daemon, upstream, key):
    """A reload that fails on lines with secrets in them, and work that hangs when the end comes."""
    text = daemon.config.read_text()
    daemon.config.write_text(text.replace('"planted-header"', '["planted-header"]') + f'\n[nonsense]\nx = "{key}"\n')
    daemon.signal(signal.SIGHUP)
    until(lambda: "reload failed" in daemon.output())
    upstream.control(rules=[{"match": "planted", "action": {"hang": True}}])
    client.post("/v1/batches", json={"requests": [chat("q", SECRETS["prompt"])]}).raise_for_status()
    until(lambda: upstream.stats()["in_flight"].get("m"))


def test_nothing_planted_is_found(afterwards):
    assert len(afterwards.planted) > len(SECRETS) + 1
    places = (afterwards.log, *afterwards.pages)
    assert {what for what, text in afterwards.planted.items() if any(text in place for place in places)} == set()


def test_the_log_is_whole(afterwards):
    """What the search above looked through is the log: lines of all kinds are there, with their ids."""
    lines = [json.loads(line) for line in afterwards.log.splitlines()]
    assert {
        "ready", "request", "request refused", "batch created", "batch ended", "attempt failed", "webhook delivered",
        "batch deleted", "an upstream refuses our key", "reload failed, the old configuration stays", "stopping", "stopped",
    } <= {line["event"] for line in lines}  # fmt: skip
    for line in lines:
        if line["event"] in ("request", "batch created", "batch deleted"):
            assert line["request_id"].startswith("req_")
        if line["event"] == "attempt failed":
            assert line["batch"].startswith(("batch_", "msgbatch_"))
            assert line["request_id"].startswith("req_")
            assert line["attempt"] in (1, 2)
    assert [line["status"] for line in lines if line["event"] == "batch moved on"].count("in_progress") == 4
    ended = [line for line in lines if line["event"] == "batch ended"]
    assert {line["status"] for line in ended} == {"completed", "failed"}
    assert all(line["cost_usd"] for line in ended)
    assert not [line for line in lines if "exception" in line], "nothing of ours broke"
