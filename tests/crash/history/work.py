"""Bodies of create calls of every kind, drawn from a seed. Each request has a name that no other has: it is its `custom_id`
and stands in its prompt, so that the upstream knows whom it is asked for."""

import json
import random
import re
from dataclasses import dataclass
from typing import Any

NAME = re.compile(r"t[0-9a-z]+-\d+")
FORMS = ("inline", "embeddings", "responses", "file", "message")
PATHS = {"embeddings": "/v1/embeddings", "responses": "/v1/responses"}


def name_in(text: str) -> str | None:
    """The name of the request that a text is of."""
    found = NAME.search(text)
    return found[0] if found else None


@dataclass(frozen=True)
class Work:
    """One batch to be: `requests` as its API has them."""

    tag: str
    form: str
    requests: list[dict[str, Any]]

    @property
    def names(self) -> list[str]:
        return [request["custom_id"] for request in self.requests]

    def jsonl(self) -> bytes:
        """The input file of a batch of form "file"."""
        return b"".join(json.dumps(request).encode() + b"\n" for request in self.requests)


def draw(chance: random.Random, tag: str, largest: int) -> Work:
    """A batch of a random kind, most of them small."""
    form = chance.choices(FORMS, (5, 2, 2, 2, 2))[0]
    count = max(1, round(largest * chance.random() ** 2))
    model = chance.choices(("fast", "slow"), (8, 1))[0]
    mixed = form != "file" and chance.random() < 0.2  # a file is of one model
    models = ["slow" if mixed and chance.random() < 0.1 else model for _ in range(count)]
    if model == "slow":
        models = models[:20]
    requests = [_request(form, f"{tag}-{number}", name) for number, name in enumerate(models)]
    return Work(tag, form, requests)


def _request(form: str, name: str, model: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"say {name}"}]
    if form == "message":
        return {"custom_id": name, "params": {"model": model, "max_tokens": 64, "messages": messages}}
    if form == "embeddings":
        return {"custom_id": name, "url": PATHS[form], "body": {"model": model, "input": f"say {name}"}}
    if form == "responses":
        return {"custom_id": name, "url": PATHS[form], "body": {"model": model, "input": f"say {name}"}}
    line = {"custom_id": name, "body": {"model": model, "messages": messages}}
    return line | {"method": "POST", "url": "/v1/chat/completions"} if form == "file" else line


def direct(name: str) -> dict[str, Any]:
    """An interactive call."""
    return {"model": "fast", "messages": [{"role": "user", "content": f"say {name}"}]}
