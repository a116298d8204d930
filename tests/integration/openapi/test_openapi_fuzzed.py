"""A daemon answers whatever the API's description lets a client send, and much that it does not, as the description says:
schemathesis makes the calls and judges the answers. No 5xx, no status, header or body that is not described.
"""

import json
import os
import subprocess
import sys

import httpx2
import pytest
from daemons import ALL_EXTENSIONS, DaemonProcess, closing_all

CONFIG = (
    """
max_failed_keys_per_minute = 0
[storage]
min_free_bytes = 0
[batches]
max_unfinished_batches = 1000000
max_unfinished_requests = 100000000
max_uploads_per_hour = 1000000
[webhooks]
allow_private_addresses = true
timeout_s = 1
[[models]]
id = "my-model"
endpoints = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings"]
upstreams = [{ url = "echo:" }]
[[models]]
id = "org/my-other-model"
upstreams = [{ url = "echo:" }]
"""
    + ALL_EXTENSIONS
)
SECONDS = os.environ.get("FIBATCHD_SECONDS", "900")
"""How long the long form takes."""

# Of the two, one takes every refusal of what the schema lets pass for an error, though a schema cannot know which models
# there are; the other wants a path's `Allow` to name no method of a path with slashes that this one is part of, too.
SKIPPED = "positive_data_acceptance,allow_header_conformance"


@pytest.fixture
def daemon(tmp_path, request):
    """A daemon; its extensions are off where the test says so."""
    config = CONFIG.replace(" = true\n", f" = {getattr(request, 'param', 'true')}\n")
    with closing_all() as processes:
        started = DaemonProcess(tmp_path, config)
        processes.append(started)
        yield started


def narrowed(document):
    """The document, with values of which a daemon knows only some, and which chance would not hit, told: so that calls get
    behind the checks. No webhook goes anywhere but to this machine."""
    schemas = document["components"]["schemas"]
    model = {"enum": ["my-model", "org/my-other-model", "no-such-model"]}
    schemas["ChatCompletionRequest"]["properties"]["model"] = model
    schemas["EmbeddingsRequest"]["properties"]["model"] = model
    schemas["ResponsesRequest"]["properties"]["model"] = model
    schemas["TierName"] = {"enum": ["free", "pro", "internal"]}
    request = schemas["BatchRequest"]["properties"]
    request["body"] = {"$ref": "#/components/schemas/ChatCompletionRequest"}
    request["url"] = {"enum": ["/v1/chat/completions", "/v1/responses", None]}
    url = document["paths"]["/v1/batch_webhook"]["put"]["requestBody"]["content"]["application/json"]["schema"]
    url["properties"]["url"] = {"enum": ["http://127.0.0.1:9/hook", "https://127.0.0.1:9/hook", "ftp://a", "x"]}
    return document


def schemathesis(daemon, folder, *options):
    key = daemon.new_key("admin")
    document = narrowed(httpx2.get(f"{daemon.base}/openapi.json").raise_for_status().json())
    (folder / "narrowed.json").write_text(json.dumps(document))
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(folder / "narrowed.json"), f"--url={daemon.base}"]
    command += [f"--header=Authorization: Bearer {key}", "--checks=all", f"--exclude-checks={SKIPPED}"]
    command += ["--no-color", "--continue-on-failure", "--request-timeout=30", "--warnings=off", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    assert daemon.process.poll() is None
    faults = [line for line in daemon.log_lines() if line["level"] in ("error", "critical")]
    assert faults == []


@pytest.mark.slow
def test_what_schemas_suggest(daemon, tmp_path):
    """The edges of every parameter and field, then calls that follow from one another; the same ones each time."""
    schemathesis(daemon, tmp_path, "--phases=examples,coverage,stateful", "--seed=1", "--max-time=40")


@pytest.mark.torture
@pytest.mark.parametrize("daemon", ["true", "false"], ids=["on", "off"], indirect=True)
def test_chance(daemon, tmp_path):
    schemathesis(daemon, tmp_path, "--phases=fuzzing,stateful", "--max-examples=1000", f"--max-time={SECONDS}")
