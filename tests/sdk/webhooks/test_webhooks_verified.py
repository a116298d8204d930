"""Deliveries of a real daemon, verified by the libraries that receivers use."""

import json
import shutil
import subprocess
from pathlib import Path

import anthropic
import httpx2
import openai
import pytest
import standardwebhooks
from daemons import DaemonProcess, ModelServerProcess, chat, closing_all
from hook_receiver import hook_receiver
from sdks import node_modules_with

from fibatchd.inference.schema import load_schema

VERIFY = Path(__file__).with_name("verify.mjs")
CONFIG = """
[storage]
url = "{storage}"
min_free_bytes = 0
[metrics]
listen = ""
[extensions]
webhooks = true
message_batches = true
[webhooks]
allow_private_addresses = true
retry_base_s = 0.05
retry_cap_s = 1
[[models]]
id = "m"
endpoints = ["/v1/chat/completions", "/v1/messages"]
upstreams = [{{ url = "{upstream}/v1", endpoints = ["/v1/chat/completions"] }}]
"""


@pytest.fixture
def receiver():
    with hook_receiver() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def daemon(request, tmp_path):
    storage = "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("empty_postgres")
    with closing_all() as processes:
        upstream = ModelServerProcess()
        processes.append(upstream)
        running = DaemonProcess(tmp_path, CONFIG.format(storage=storage, upstream=upstream.url))
        processes.append(running)
        yield running


def set_webhook(client: httpx2.Client, url: str, **more) -> dict:
    return client.put("/v1/batch_webhook", json={"url": url} | more).raise_for_status().json()


def a_batch(client: httpx2.Client) -> str:
    return client.post("/v1/batches", json={"requests": [chat("q", "hello")]}).raise_for_status().json()["id"]


def a_message_batch(base: str, key: str) -> str:
    params = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}
    client = anthropic.Anthropic(base_url=base, api_key=key)
    return client.messages.batches.create(requests=[{"custom_id": "q", "params": params}]).id


@pytest.mark.slow
def test_deliveries_are_verified(daemon, receiver, needs):
    key = daemon.new_key()
    with daemon.client(key) as client:
        first = set_webhook(client, receiver.url)["secret"]
        posts = [receiver.event_of(a_batch(client)), receiver.event_of(a_message_batch(daemon.base, key))]
        second = set_webhook(client, receiver.url, rotate_secret=True)["secret"]
        posts += [receiver.event_of(a_batch(client))]
    assert [post.event["type"] for post in posts] == ["batch.completed", "message_batch.ended", "batch.completed"]
    assert [load_schema("webhook_event").problem(post.event) for post in posts] == [None] * 3
    cases = [(first, post) for post in posts] + [(second, posts[-1])]
    for secret, post in cases:
        verified = standardwebhooks.Webhook(secret).verify(post.body, post.headers)
        assert verified["id"] == post.id
        unwrapped = openai.OpenAI(api_key="x", webhook_secret=secret).webhooks.unwrap(post.body, post.headers)
        assert (unwrapped.id, unwrapped.type, unwrapped.data.id) == (post.id, verified["type"], verified["data"]["id"])
    with pytest.raises(openai.InvalidWebhookSignatureError):
        openai.OpenAI(api_key="x", webhook_secret=second).webhooks.unwrap(posts[0].body, posts[0].headers)
    by_npm([*cases, (second, posts[0])], needs)


def by_npm(cases, needs):
    """Verify with the npm package; the last case is one that must not pass."""
    folder = node_modules_with(needs("npm"), "standardwebhooks", "1.1.1")
    script = shutil.copy(VERIFY, folder / "verify.mjs")
    given = [
        {"secret": secret, "body": post.body.decode(), "headers": post.headers, "good": case is not cases[-1]}
        for case in cases
        for secret, post in [case]
    ]
    node = [needs("node"), str(script)]
    done = subprocess.run(node, input=json.dumps(given), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "verified\n"), done.stderr
