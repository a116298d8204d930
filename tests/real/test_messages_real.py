"""Message Batches and streamed messages of a real model, translated to llama.cpp's chat completions, by the SDK."""

import time

import anthropic
import pytest
from daemons import DaemonProcess, closing_all, free_port
from llama import MODEL, model_server

pytestmark = pytest.mark.real

CONFIG = """
[extensions]
message_batches = true
[storage]
min_free_bytes = 0
[metrics]
listen = ""
[[models]]
id = "small"
endpoints = ["/v1/messages"]
concurrency = 2
upstreams = [{{ url = "{url}", endpoints = ["/v1/chat/completions"], model = "{model}" }}]
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    with model_server(free_port(), folder / "llama.log") as url, closing_all() as processes:
        daemon = DaemonProcess(folder, CONFIG.format(url=url, model=MODEL))
        processes.append(daemon)
        with anthropic.Anthropic(
            base_url=f"{daemon.base}/anthropic", api_key=daemon.new_key(), max_retries=0
        ) as client:
            yield client


def params(text, **more):
    return {"model": "small", "max_tokens": 16, "messages": [{"role": "user", "content": text}]} | more


def text_of(message):
    return "".join(block.text for block in message.content)


def run(client, requests):
    items = [{"custom_id": name, "params": body} for name, body in requests.items()]
    batch = client.messages.batches.create(requests=items)
    deadline = time.monotonic() + 600
    while batch.processing_status != "ended":
        assert time.monotonic() < deadline
        time.sleep(0.5)  # the API is polled, as its users do
        batch = client.messages.batches.retrieve(batch.id)
    return {entry.custom_id: entry.result for entry in client.messages.batches.results(batch.id)}


def test_a_batch(client):
    results = run(client, {f"q-{n}": params(f"Name a city. Number {n}.") for n in range(20)})
    assert list(results) == [f"q-{n}" for n in range(20)]
    for result in results.values():
        assert result.type == "succeeded"
        assert text_of(result.message)
        assert result.message.model == "small"
        assert result.message.usage.input_tokens + (result.message.usage.cache_read_input_tokens or 0) > 5
        assert result.message.usage.output_tokens <= 16


def test_what_a_model_cannot_do_is_said(client):
    requests = {
        "long": params("word " * 5000),
        "thinking": params("Hi", thinking={"type": "adaptive"}),
        "fine": params("Hi"),
    }
    results = run(client, requests)
    assert results["fine"].type == "succeeded"
    for name in ("long", "thinking"):
        assert results[name].error.error.type == "invalid_request_error", results[name]
    assert results["thinking"].error.error.message.startswith("thinking: ")


def test_a_stream_accumulates_the_message(client):
    pieces = []
    with client.messages.stream(**params("Count from one to ten.", max_tokens=40, system="Be brief.")) as stream:
        pieces.extend(stream.text_stream)
        message = stream.get_final_message()
    assert len(pieces) > 3
    assert "".join(pieces) == text_of(message)
    assert message.stop_reason in ("end_turn", "max_tokens")


def test_an_answer_that_is_cut_off(client):
    assert client.messages.create(**params("Write a long story.", max_tokens=5)).stop_reason == "max_tokens"
