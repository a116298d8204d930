"""Puts into each operation what all of them have in common, so that fragments say only what is their own.

A fragment's `x-always` says what that is:

    error      name of the schema of its errors
    responses  answers that any call may get, by status: names in `components/responses`
    headers    headers by the status that has them, or `any`: names in `components/headers`

An answer with `x-codes` is an error with one of these codes, or one that any call may get with this status.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .joining import Operation, operations

KEY = "x-always"
CODES = "x-codes"
REFERENCE = "#/components/responses/"
WITH_A_KEY = frozenset({"401", "403", "429"})
"""Only a call that needs a key may be answered so."""


@dataclass(frozen=True, slots=True)
class Always:
    """What `x-always` says; what a fragment leaves out is as the core has it."""

    error: str
    responses: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, Iterable[str]] = field(default_factory=dict)

    def but(self, said: Mapping[str, Any]) -> "Always":
        """Return the same with what another fragment says."""
        return Always(
            said.get("error", self.error), said.get("responses", self.responses), said.get("headers", self.headers)
        )


def complete(document: dict[str, Any], always: Mapping[Operation, Always]) -> None:
    """Complete all answers of a document. `always` says what each of its operations has in common with others."""
    common = document["components"]["responses"]
    for operation, described in operations(document):
        described["responses"] = _answers(described, always[operation], common)
    for operation, described in operations(document):
        for status, answer in described["responses"].items():
            _write_out(_resolved(answer, common), status, always[operation])


def _answers(described: Mapping[str, Any], always: Always, common: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of an operation, by status: its own, and those that any call may get."""
    own: dict[str, Any] = dict(described.get("responses", {}))
    is_public = described.get("security") == []
    for status, name in always.responses.items():
        if status not in own and not (is_public and status in WITH_A_KEY):
            own[status] = {"$ref": REFERENCE + name}
        elif CODES in own.get(status, ()):
            own[status].setdefault("description", common[name]["description"])
            own[status][CODES] = [*common[name].get(CODES, ()), *own[status][CODES]]
    return dict(sorted(own.items()))


def _write_out(answer: dict[str, Any], status: str, always: Always) -> None:
    """Put in an answer's headers, and the body of one that is named by its codes."""
    if CODES in answer:
        codes = {"properties": {"error": {"properties": {"code": {"enum": answer.pop(CODES)}}}}}
        schema = {"$ref": f"#/components/schemas/{always.error}", **codes}
        answer["content"] = {"application/json": {"schema": schema}}
    for name in [*always.headers.get("any", ()), *always.headers.get(status, ())]:
        answer.setdefault("headers", {}).setdefault(name, {"$ref": f"#/components/headers/{name}"})


def _resolved(answer: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = common[answer["$ref"].removeprefix(REFERENCE)] if "$ref" in answer else answer
    return found
