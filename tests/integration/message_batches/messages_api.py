"""Calls of the Messages API, for its tests on a served API without a scheduler."""

import json
from dataclasses import replace
from typing import Any

EXTRA = """
[extensions]
message_batches = true
[[models]]
id = "claude"
aliases = ["claude-latest"]
endpoints = ["/v1/messages", "/v1/chat/completions"]
upstreams = [{ url = "echo:" }]
[[models]]
id = "drained"
endpoints = ["/v1/messages"]
drain = true
upstreams = [{ url = "echo:", endpoints = ["/v1/chat/completions"] }]
"""
BATCHES = "/v1/messages/batches"
VERSION = {"anthropic-version": "2023-06-01"}


def params(**changes: Any) -> dict[str, Any]:
    """A request's params."""
    return {
        "model": "claude",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "Name three primes."}],
    } | changes


def item(custom_id: str = "q-1", **changes: Any) -> dict[str, Any]:
    """An item of `requests`."""
    return {"custom_id": custom_id, "params": params(**changes)}


async def post(api, body, *, path=BATCHES, version="2023-06-01", headers=None, **options):
    """Send a create call."""
    sent = ({"anthropic-version": version} if version else {}) | (headers or {})
    return await api.call("POST", path, json=body, headers=sent, **options)


async def create(api, *items, **options):
    """Create a batch, and return it."""
    answer = await post(api, {"requests": list(items) or [item("q-1"), item("q-2")]}, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def get(api, batch, path=BATCHES):
    answer = await api.call("GET", f"{path}/{batch['id']}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def lines(api, batch):
    """The results, each line decoded."""
    answer = await api.call("GET", f"{BATCHES}/{batch['id']}/results")
    assert answer.status_code == 200, answer.text
    assert answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.removesuffix("\n").split("\n")]


def error_of(answer, status):
    """The error of an answer, whose shape is checked."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert list(body) == ["type", "error", "request_id"]
    assert body["type"] == "error"
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    assert list(body["error"]) == ["type", "message"]
    return body["error"]


def switch(api, *, on):
    """Switch the extension, as a reload does."""
    api.context.config = replace(api.context.config, extensions={"message_batches": on})
