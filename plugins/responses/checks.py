"""What is refused on every route, so that a request stands alone: nothing is stored here, and nothing outside the request
is reached, neither a provider's files nor the tools that a provider runs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fibatchd.plugin_api import Problem

_NOT_STORED = "must be left out: responses are not stored, so that there is nothing to go on from"
_LEFT_OUT = {
    "previous_response_id": _NOT_STORED,
    "conversation": _NOT_STORED,
    "prompt": "must be left out: there are no stored prompts",
}
_FALSE = {
    "store": "must be false or left out: responses are not stored",
    "background": "must be false or left out: a request runs once, in a batch or while its caller waits",
}
_CLIENTS_TOOLS = frozenset({"function", "custom", "local_shell", "apply_patch", "computer", "computer_use_preview"})
"""Tools whose calls the client carries out; all others run where the model does."""


def independence_problem(request: Mapping[str, Any]) -> Problem | None:
    """Return the first reason why a decoded body, which the schema has passed, cannot run on its own; None: it can."""
    return next(_problems(request), None)


def _problems(request: Mapping[str, Any]) -> Iterator[Problem]:
    for name, why in _LEFT_OUT.items():
        if request.get(name) is not None:
            yield _problem(name, why)
    for name, why in _FALSE.items():
        if request.get(name):
            yield _problem(name, why)
    yield from _tools(request.get("tools"), "tools")
    if not isinstance(request["input"], str):
        for index, item in enumerate(request["input"]):
            yield from _item(item, f"input[{index}]")


def _item(item: Mapping[str, Any], path: str) -> Iterator[Problem]:
    kind = item.get("type")
    if kind == "item_reference" or (kind is None and "role" not in item):
        yield _problem(path, "items cannot be referred to: none are stored")
    elif kind == "additional_tools":
        yield from _tools(item.get("tools"), f"{path}.tools")
    for name in ("content", "output"):
        for index, part in _objects(item.get(name)):
            yield from _part(part, f"{path}.{name}[{index}]")


def _part(part: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if part.get("type") == "input_file":
        yield _problem(path, "files cannot be given to a request")
    elif part.get("type") == "input_image" and part.get("file_id") is not None:
        yield _problem(f"{path}.file_id", "files cannot be given to a request; send the image as image_url")


def _tools(tools: object, path: str) -> Iterator[Problem]:
    for index, tool in _objects(tools):
        if tool.get("type") == "namespace":
            yield from _tools(tool.get("tools"), f"{path}[{index}].tools")
        elif not _is_clients(tool):
            yield _problem(f"{path}[{index}].type", "hosted tools are not served; a tool is one that the client runs")


def _is_clients(tool: Mapping[str, Any]) -> bool:
    kind = tool.get("type")
    if kind == "shell":
        environment = tool.get("environment")
        return isinstance(environment, dict) and environment.get("type") == "local"
    if kind == "tool_search":
        return tool.get("execution") == "client"
    return kind in _CLIENTS_TOOLS


def _objects(value: object) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Give the objects of an array, each with its index. The schema leaves open what is in items and tools of types that it
    does not know, and there anything may stand where an array of objects belongs."""
    for index, element in enumerate(value if isinstance(value, list) else ()):
        if isinstance(element, dict):
            yield index, element


def _problem(path: str, why: str) -> Problem:
    return Problem(f"{path}: {why}", path)
