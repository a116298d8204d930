"""Puts into each operation what all of them have in common, so that fragments say only what is their own.

A fragment's `x-always` says what that is:

    error      name of the schema of its errors
    responses  answers that any call may get, by status: names in `components/responses`
    headers    headers by the status that has them, or `any`: names in `components/headers`

An answer with `x-codes` is an error with one of these codes, or one that any call may get with this status.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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

    def without_key(self) -> "Always":
        """Return the same for an operation that is called without a key."""
        return replace(
            self, responses={status: name for status, name in self.responses.items() if status not in WITH_A_KEY}
        )


def complete(document: dict[str, Any], always: Mapping[Operation, Always]) -> None:
    """Complete all answers of a document. `always` says what each of its operations has in common with others."""
    common = document["components"]["responses"]
    codes = {name: answer.get(CODES, []) for name, answer in common.items()}
    for operation, described in operations(document):
        shared = always[operation]
        if described.get("security") == []:
            shared = shared.without_key()
        described["responses"] = _answers(described.get("responses", {}), shared, common)
        for status, answer in described["responses"].items():
            any_call = codes.get(shared.responses.get(status, ""), [])
            _write_out(_resolved(answer, common), status, shared, any_call)


def _answers(own: Mapping[str, Any], always: Always, common: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of an operation, by status: its own, and those that any call may get."""
    answers: dict[str, Any] = {status: {"$ref": REFERENCE + name} for status, name in always.responses.items()}
    answers |= own
    for status, answer in answers.items():
        if CODES in answer and status in always.responses:
            answer.setdefault("description", common[always.responses[status]]["description"])
    return dict(sorted(answers.items()))


def _write_out(answer: dict[str, Any], status: str, always: Always, any_call: Iterable[str | None]) -> None:
    """Put in an answer's headers, and the body of one that is named by its codes; `any_call` are those that any call may get
    with its status."""
    if CODES in answer:
        said = {"enum": list(dict.fromkeys([*any_call, *answer.pop(CODES)]))}
        codes = {"properties": {"error": {"properties": {"code": said}}}}
        schema = {"$ref": f"#/components/schemas/{always.error}", **codes}
        answer["content"] = {"application/json": {"schema": schema}}
    for name in [*always.headers.get("any", ()), *always.headers.get(status, ())]:
        answer.setdefault("headers", {}).setdefault(name, {"$ref": f"#/components/headers/{name}"})


def _resolved(answer: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = common[answer["$ref"].removeprefix(REFERENCE)] if "$ref" in answer else answer
    return found
