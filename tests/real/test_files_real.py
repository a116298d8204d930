"""File batches of a real model, by the OpenAI SDK."""

import json
import time

import openai
import pytest
from daemons import DaemonProcess, closing_all, free_port
from llama import INSTALLED, MODEL, model_server

pytestmark = pytest.mark.real

CONFIG = """
[extensions]
files = true
[metrics]
listen = ""
[storage]
min_free_bytes = 0
[batches]
retry_base_s = 0.2
retry_cap_s = 1
max_attempts = 2
[[models]]
id = "small"
aliases = ["tiny"]
concurrency = 4
upstreams = [{{ url = "{url}", model = "{model}", timeout_s = 300 }}]
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    if not INSTALLED.exists():
        pytest.skip("the model is not installed; `make test-real` does that")
    folder = tmp_path_factory.mktemp("real-files")
    with model_server(free_port(), folder / "llama.log") as url, closing_all() as processes:
        daemon = DaemonProcess(folder, CONFIG.format(url=url, model=MODEL))
        processes.append(daemon)
        with openai.OpenAI(base_url=f"{daemon.base}/v1", api_key=daemon.new_key(), max_retries=0) as client:
            yield client


def line(custom_id, content, **body):
    body = {"model": "small", "max_tokens": 16, "messages": [{"role": "user", "content": content}]} | body
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}


def run(client, lines):
    content = "".join(json.dumps(item) + "\n" for item in lines).encode()
    file = client.files.create(file=("questions.jsonl", content), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    deadline = time.monotonic() + 600
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        assert time.monotonic() < deadline
        time.sleep(0.5)  # the API is polled, as its users do
        batch = client.batches.retrieve(batch.id)
    return batch


def read(client, file_id):
    return [json.loads(text) for text in client.files.content(file_id).text.splitlines()]


def test_a_batch(client):
    lines = [line(f"q-{n}", f"Name a city. Number {n}.", model="tiny" if n % 2 else "small") for n in range(20)]
    batch = run(client, lines)
    assert (batch.status, batch.error_file_id, batch.model) == ("completed", None, "small")
    assert batch.usage.output_tokens > 0
    answers = read(client, batch.output_file_id)
    assert [answer["custom_id"] for answer in answers] == [f"q-{n}" for n in range(20)]
    for answer in answers:
        body = answer["response"]["body"]
        assert body["model"] == "small"
        assert body["choices"][0]["message"]["content"].strip()
        assert body["usage"]["completion_tokens"] <= 16


def test_what_the_model_refuses_is_in_the_error_file(client):
    """llama.cpp's server has a context of 2,048 tokens, and answers a longer prompt with an error of its own form."""
    batch = run(client, [line("short", "Say hello."), line("long", "word " * 5000)])
    assert (batch.status, batch.request_counts.failed) == ("completed", 1)
    (error,) = read(client, batch.error_file_id)
    assert error["custom_id"] == "long"
    problem = (error["response"] or {}).get("body", {}).get("error") or error["error"]
    assert problem["code"] in ("invalid_request", "upstream_error")
    assert MODEL not in problem["message"]
