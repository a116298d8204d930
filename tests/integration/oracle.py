"""Says whether an answer is one that the API's description has for the operation: its status, headers and body."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import httpx2
import jsonschema_rs

from fibatchd import plugin_loader
from fibatchd.web.openapi import Operation, document, operations


class Oracle:
    """A document, asked of answers."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self.operations = dict(operations(whole))
        self._components = whole["components"]
        self._validators: dict[str, Any] = {}
        # Of two that fit, such as /batches/{id} and /batches/batch_webhook, that with fewer variables is meant.
        fewest_first = sorted(self.operations, key=lambda operation: operation.path.count("{"))
        self._paths = [(operation, re.compile(pattern(operation.path))) for operation in fewest_first]

    def operation(self, method: str, path: str) -> Operation | None:
        """Return what a call was, None where it is not described."""
        return next((known for known, paths in self._paths if known.method == method and paths.fullmatch(path)), None)

    def problems(self, operation: Operation, status: int, headers: Mapping[str, str], body: bytes) -> Iterator[str]:
        """Give what is wrong with an answer."""
        answers = self.operations[operation]["responses"]
        said = answers.get(str(status)) or answers.get(f"{status // 100}XX")
        if said is None:
            yield f"{status} is not described"
            return
        said = self._resolved(said)
        for name, header in said.get("headers", {}).items():
            if self._resolved(header).get("required") and name.lower() not in headers:
                yield f"{status} has no header {name}"
        if "content" in said:
            yield from self._body_problems(said["content"], headers.get("content-type", "none"), body)

    def _body_problems(self, content: Mapping[str, Any], content_type: str, body: bytes) -> Iterator[str]:
        kind = content_type.partition(";")[0]
        if kind not in content:
            yield f"its type is {content_type}, not one of {', '.join(content)}"
        elif kind == "application/json":
            for error in self._validator(content[kind]["schema"]).iter_errors(json.loads(body)):
                yield f"{'.'.join(map(str, error.instance_path))}: {error.message[:300]}"

    def _validator(self, schema: Mapping[str, Any]) -> Any:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            whole = {**schema, "components": self._components}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole)
        return self._validators[key]

    def _resolved(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in part:
            _, _, kind, name = part["$ref"].split("/")
            part = self._components[kind][name]
        return part


def pattern(path: str) -> str:
    """A path's variables are one segment each, but for models' names."""
    slashed = re.sub(r"\\\{(?:name|model_id)\\\}", ".+", re.escape(path))
    return re.sub(r"\\\{\w+\\\}", "[^/]+", slashed)


@cache
def oracle() -> Oracle:
    """Return the one of the plugins that are installed."""
    return Oracle(document(plugin_loader.load()))


async def as_described(answer: httpx2.Response) -> None:
    """Hold an answer against the description; a hook of a client's. What is streamed, or no JSON, is left for the test."""
    operation = oracle().operation(answer.request.method, answer.request.url.path)
    if operation is None or answer.status_code == 405:
        return
    is_json = answer.headers.get("content-type") == "application/json"
    if is_json and "content-length" not in answer.headers:
        return
    body = await answer.aread() if is_json else b""
    problems = list(oracle().problems(operation, answer.status_code, answer.headers, body))
    assert problems == [], (operation, answer.status_code, body[:300])
