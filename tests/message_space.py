"""The whole parameter space of a message, read from the types of the installed `anthropic` package; see `type_space`."""

from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from type_space import Case, Path, fields_of, kind_of, leaf, marks, merged, pairs, values, without
from typing_extensions import TypedDict

__all__ = ["Case", "cases", "is_no_op", "kind_of", "marks", "merged", "names", "pairs", "without"]


class Removed(TypedDict, total=False):
    """What older releases have and the current types no longer name."""

    temperature: float
    top_p: float
    top_k: int


def cases() -> list[Case]:
    """Every field of a message alone."""
    found = []
    for typed in (MessageCreateParamsNonStreaming, Removed):
        for name, hint, _ in fields_of(typed):
            if name == "model":
                continue
            for path, value in values(hint, 0):
                found.append(Case((name, *path), complete({name: value})))
    return found


def complete(members: dict[str, Any]) -> dict[str, Any]:
    """A request with these members. One that ends with another turn than the user's goes on with one of his."""
    body = {"max_tokens": 64, "messages": [{"role": "user", "content": "x"}]} | members
    if body["messages"] and body["messages"][-1]["role"] != "user":
        body["messages"] = [*body["messages"], {"role": "user", "content": "x"}]
    return body


NO_OPS: list[tuple[str, Any]] = [
    ("metadata", {}),
    ("output_config", {}),
    ("service_tier", "auto"),
    ("stream", False),
    ("thinking", {"type": "disabled"}),
    ("tool_choice.disable_parallel_tool_use", False),
    ("tools.0.allowed_callers.0", "direct"),
    ("tools.0.defer_loading", False),
    ("tools.0.eager_input_streaming", False),
    ("tools.0.type", "custom"),
    ("messages.0.content.0.caller", {"type": "direct"}),
    ("messages.0.content.0.is_error", False),
]
"""Defaults written out: they ask for nothing that is not so anyway, and need not reach the upstream."""


def is_no_op(case: Case) -> bool:
    return (written(case.path), leaf(case.body, case.path)) in NO_OPS


def written(path: Path) -> str:
    return ".".join(map(str, path))


def names(error: str, path: Path) -> bool:
    """Whether an error is about the field at `path`: it names it, what it stands in, or what it holds."""
    named, wanted = (_object(text) for text in (error.partition(":")[0], written(path)))
    return wanted == named or wanted.startswith(named + ".") or named.startswith(wanted + ".")


def _object(path: str) -> str:
    """A path; that of what tells the kind of an object stands for the object's."""
    return path.removesuffix(".type").removesuffix(".role")
