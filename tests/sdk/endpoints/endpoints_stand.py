"""A daemon, the model server behind it, and the official client; batches of both forms through that client."""

import io
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
from daemons import DaemonProcess, closing_all
from endpoint_models import ModelServer, model_server
from openai.types import Batch

CONFIG = """
[extensions]
files = true
embeddings = true
responses = true
[storage]
url = "{storage}"
min_free_bytes = 0
[metrics]
listen = ""
[batches]
retry_base_s = 0.01
retry_cap_s = 0.02
[[models]]
id = "embed"
aliases = ["embed-latest"]
endpoints = ["/v1/embeddings"]
price_usd_per_million = {{ input = "0.01" }}
capabilities = {{ max_inputs = 64, max_dimensions = 64 }}
upstreams = [{{ url = "{url}/v1", model = "their-embedder" }}]
[[models]]
id = "embed-wide"
endpoints = ["/v1/embeddings"]
upstreams = [{{ url = "{url}/v1", model = "their-embedder" }}]
[[models]]
id = "translated"
endpoints = ["/v1/chat/completions", "/v1/responses"]
concurrency = 32
price_usd_per_million = {{ input = "1", cached_input = "0.1", output = "2" }}
upstreams = [{{ url = "{url}/v1", endpoints = ["/v1/chat/completions"], model = "their-chat" }}]
[[models]]
id = "native"
endpoints = ["/v1/responses"]
concurrency = 32
price_usd_per_million = {{ input = "1", cached_input = "0.1", output = "2" }}
upstreams = [{{ url = "{url}/v1", model = "their-responder" }}]
"""
COST_USD = (20 * 1 + 10 * 0.1 + 12 * 2) / 1_000_000
"""Of one response: 30 input tokens, of which 10 are cached, and 12 output tokens."""


@dataclass
class Stand:
    """`client` is the official one, with an internal account's `key`."""

    daemon: DaemonProcess
    models: ModelServer
    client: openai.OpenAI
    key: str

    def inline(self, url: str, bodies: list[dict[str, Any]]) -> Batch:
        """Create an inline batch of these bodies."""
        requests = [{"custom_id": str(n), "url": url, "body": body} for n, body in enumerate(bodies)]
        return self.client.post("/batches", cast_to=Batch, body={"requests": requests})

    def from_file(self, url: str, bodies: list[dict[str, Any]]) -> Batch:
        """Create a batch of these bodies from an uploaded file."""
        lines = [{"custom_id": str(n), "method": "POST", "url": url, "body": body} for n, body in enumerate(bodies)]
        text = "".join(json.dumps(line) + "\n" for line in lines).encode()
        file = self.client.files.create(file=("in.jsonl", io.BytesIO(text)), purpose="batch")
        return self.client.batches.create(input_file_id=file.id, endpoint=url, completion_window="24h")

    def ended(self, batch: Batch) -> Batch:
        deadline = time.monotonic() + 60
        while batch.status not in ("completed", "failed", "expired", "cancelled"):
            assert time.monotonic() < deadline, batch
            time.sleep(0.02)  # the API is polled, as its users do
            batch = self.client.batches.retrieve(batch.id)
        return batch

    def completed(self, batch: Batch, count: int) -> list[bytes]:
        """Wait for a batch in which all succeed; return the lines of its results."""
        batch = self.ended(batch)
        assert (batch.status, batch.request_counts.completed) == ("completed", count), (
            batch,
            self.daemon.output()[-2000:],
        )
        lines = self.client.get(
            f"/batches/{batch.id}/output.jsonl", cast_to=openai._legacy_response.HttpxBinaryResponseContent
        )
        if batch.output_file_id is not None:
            assert self.client.files.content(batch.output_file_id).content == lines.content
        return lines.content.splitlines()


@contextmanager
def standing(folder: Path, storage: str) -> Iterator[Stand]:
    """Run all of it for as long as the block does."""
    with model_server() as models, closing_all() as processes:
        daemon = DaemonProcess(folder, CONFIG.format(storage=storage, url=models.url))
        processes.append(daemon)
        key = daemon.new_key()
        with openai.OpenAI(base_url=f"{daemon.base}/v1", api_key=key, max_retries=0) as client:
            yield Stand(daemon, models, client, key)


def bodies_of(lines: list[bytes]) -> list[dict[str, Any]]:
    """The answers in result lines, in order."""
    found = [json.loads(line) for line in lines]
    assert [line["custom_id"] for line in found] == [str(n) for n in range(len(found))]
    return [line["response"]["body"] for line in found]
