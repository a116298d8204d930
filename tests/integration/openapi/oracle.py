"""Says whether an answer is one that the API's description has for the operation: its status, headers and body."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from fibatchd.web.openapi import Operation, operations


class Oracle:
    """A document, asked of answers."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.operations = dict(operations(document))
        self.path_items = document["paths"]
        self._components = document["components"]
        self._validators: dict[str, Any] = {}

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
        if operation.method != "HEAD" and "content" in said:
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
