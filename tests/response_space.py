"""The whole parameter space of a Responses request, read from the types of the installed `openai` package; see `type_space`."""

from collections.abc import Iterator
from typing import Any

from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from type_space import Case, Path, fields_of, kind_of, leaf, marks, merged, pairs, values, without

__all__ = ["Case", "about", "cases", "is_no_op", "kind_of", "lost", "marks", "merged", "pairs", "without"]

FUNCTION = {"type": "function", "name": "f"}
SMALL = 5  # top_logprobs has a range, which the types do not tell


def cases() -> list[Case]:
    """Every field of a request alone, and what its API wants beside it."""
    found = []
    for name, hint, _ in fields_of(ResponseCreateParamsNonStreaming):
        if name == "model":
            continue
        for path, value in values(hint, 0):
            found.append(complete(Case((name, *path), {name: value})))
    return found


def complete(case: Case) -> Case:
    """The case with what has to be there where its field is."""
    body: dict[str, Any] = {"input": "x"} | case.body
    if "tool_choice" in body:
        body["tools"] = [FUNCTION]
    if "top_logprobs" in body:
        body["top_logprobs"] = SMALL
    if "stream_options" in body:
        body["stream"] = True
    if isinstance(body["input"], list):
        body["input"] = [_item(item, case.path) for item in body["input"]]
    return Case(case.path, body)


def _item(item: dict[str, Any], path: Path) -> dict[str, Any]:
    """Outputs name their call, images are somewhere, and texts have no annotations but where those are the case: the types
    do not want the first two, and their least has the last."""
    if item.get("type") == "function_call_output":
        item = {"call_id": "c"} | item
    for name in ("content", "output"):
        if isinstance(item.get(name), list):
            item = item | {name: [_part(part, path) for part in item[name]]}
    return item


def _part(part: dict[str, Any], path: Path) -> dict[str, Any]:
    if part.get("type") == "input_image":
        return {"image_url": "u"} | part
    if "annotations" in part and "annotations" not in path:
        return part | {"annotations": []}
    return part


NO_OPS: list[tuple[str, Any]] = [
    ("background", False),
    ("store", False),
    ("truncation", "disabled"),
    ("text", {}),
    ("reasoning", {}),
    ("stream_options", {}),
    ("stream_options.include_obfuscation", False),
    ("input[0].async", False),
    ("input[0].type", "message"),
    ("input[0].caller", {"type": "direct"}),
    ("input[0].caller.type", "direct"),
    ("tools[0].async", False),
    ("tools[0].defer_loading", False),
    ("tools[0].allowed_callers[0]", "direct"),
]
"""Defaults written out: they ask for nothing that is not so anyway, and need not reach the upstream."""


def is_no_op(case: Case) -> bool:
    """Whether nothing of the field need reach the upstream: see above; and what only tells how an item came to be, and
    metadata, which the answer repeats."""
    path = written(case.path)
    if (path, leaf(case.body, case.path)) in NO_OPS:
        return True
    return case.path[0] in ("metadata", "stream") or (
        case.path[0] == "input" and any(step in ("id", "status", "logprobs") for step in case.path)
    )


def lost(body: dict[str, Any], sent: str) -> set[str]:
    """The marks of a request that are not in what was sent, and ought to be."""
    return marks(dict(_told(body))) - marks(sent)


def _told(value: Any) -> Iterator[tuple[str, Any]]:
    for name, member in value.items():
        if name in ("metadata", "id", "status", "logprobs"):
            continue
        if isinstance(member, list):
            member = [dict(_told(item)) if isinstance(item, dict) else item for item in member]
        yield name, dict(_told(member)) if isinstance(member, dict) else member


def written(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def about(param: str, path: Path) -> bool:
    """Whether a refusal is about the field at `path`: it names it, what it stands in, or what it holds."""
    named, wanted = (text.removesuffix(".type").removesuffix(".role") for text in (param, written(path)))
    return (
        wanted == named
        or wanted.startswith((named + ".", named + "["))
        or named.startswith((wanted + ".", wanted + "["))
    )
