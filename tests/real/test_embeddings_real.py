"""A real embedding model: what a batch returns is what the model's server says, to the last digit."""

import itertools
import json
import math
import os
import random
import subprocess
import time
from pathlib import Path

import httpx2
import openai
import pytest
from daemons import DaemonProcess, closing_all

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-embed" / "bin" / "python"
SENTENCES = 2000
CONFIG = """
[extensions]
embeddings = true
files = true
[storage]
min_free_bytes = 0
[metrics]
listen = ""
[[models]]
id = "minilm"
endpoints = ["/v1/embeddings"]
concurrency = 4
price_usd_per_million = {{ input = "0.01" }}
upstreams = [{{ url = "{url}/v1", model = "all-MiniLM-L6-v2" }}]
"""
WHO = [
    "the surgeon",
    "a tired clerk",
    "our neighbour",
    "the choir",
    "an otter",
    "the orchestra",
    "a stranger",
    "my aunt",
]
DID = ["painted", "forgot", "repaired", "sold", "admired", "buried", "translated", "measured", "borrowed", "hid"]
WHAT = [
    "the bridge",
    "seven letters",
    "a broken clock",
    "the river's map",
    "an old piano",
    "the recipe",
    "a lighthouse",
]
WHEN = ["before dawn", "in 1998", "during the strike", "on Tuesday", "after the flood", "without a word"]


@pytest.fixture(scope="module")
def server():
    """The URL of the model's server."""
    if not PYTHON.exists():
        pytest.skip("the embedding model is not installed: run this by `make test-real`")
    # One thread for each product of matrices: what is summed in another order has other last digits.
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [PYTHON, Path(__file__).with_name("minilm_server.py")], stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def client(tmp_path_factory, server):
    folder = tmp_path_factory.mktemp("real")
    with closing_all() as processes:
        daemon = DaemonProcess(folder, CONFIG.format(url=server))
        processes.append(daemon)
        with openai.OpenAI(base_url=f"{daemon.base}/v1", api_key=daemon.new_key(), max_retries=0) as client:
            yield client


def sentences():
    every = [
        f"{who} {did} {what} {when}.".capitalize() for who, did, what, when in itertools.product(WHO, DID, WHAT, WHEN)
    ]
    return random.Random(6).sample(every, SENTENCES)


def vector_text(answer: bytes) -> bytes:
    """A vector as it was written."""
    start = answer.index(b'"embedding": [') + len(b'"embedding": ')
    return answer[start : answer.index(b"]", start) + 1]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def test_it_is_the_model(client):
    """Its card tells these similarities of the first sentence to the others."""
    texts = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    first, *others = [item.embedding for item in client.embeddings.create(model="minilm", input=texts).data]
    assert [cosine(first, other) for other in others] == pytest.approx([0.6946, 0.9429, 0.2569], abs=1e-3)


def test_sentences_through_a_batch_equal_those_embedded_directly(client, server):
    texts = sentences()
    began = time.monotonic()
    bodies = [{"model": "minilm", "input": text} for text in texts]
    lines = [
        {"custom_id": str(n), "method": "POST", "url": "/v1/embeddings", "body": body} for n, body in enumerate(bodies)
    ]
    file = client.files.create(
        file=("in.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode()), purpose="batch"
    )
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h")
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        assert time.monotonic() < began + 1200
        time.sleep(0.5)  # the API is polled, as its users do
        batch = client.batches.retrieve(batch.id)
    batched_s = time.monotonic() - began
    assert (batch.status, batch.request_counts.completed) == ("completed", SENTENCES)
    output = client.files.content(batch.output_file_id).content.splitlines()
    began = time.monotonic()
    tokens = 0
    with httpx2.Client(base_url=f"{server}/v1") as direct:
        for body, line in zip(bodies, output, strict=True):
            answer = direct.post("/embeddings", json=body | {"model": "all-MiniLM-L6-v2"}).content
            assert vector_text(line) == vector_text(answer)
            tokens += json.loads(answer)["usage"]["prompt_tokens"]
    print(f"{SENTENCES} sentences: {batched_s:.1f} s in a batch, {time.monotonic() - began:.1f} s directly, one by one")
    assert (batch.usage.input_tokens, batch.usage.output_tokens) == (tokens, 0)
    assert batch.to_dict()["cost_usd"] == pytest.approx(tokens * 0.01 / 1_000_000)
