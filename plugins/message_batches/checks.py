"""What is refused of a Messages body whatever runs it. What only a translation cannot carry is found by that."""

from collections.abc import Iterator, Mapping
from typing import Any

from fibatchd.plugin_api import Problem, rawjson

from .fields import REQUIRED
from .versions import blocks, version_problem

# Types begin with these; a date follows.
SERVER_TOOLS = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "mcp_toolset", "advisor_")


def body_problem(body: bytes, version: str, *, batch: bool) -> Problem | None:
    """Return the first problem of a body (an object), None where it has none."""
    value = rawjson.decode(body)
    found = next(_problems(value, batch=batch), None) or version_problem(value, version)
    return None if found is None else Problem(found, found.partition(":")[0])


def _problems(body: Mapping[str, Any], *, batch: bool) -> Iterator[str]:
    """Give what is wrong, as `path: why`. A null counts as absent."""
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        yield "stream: expected true or false"
    if stream and batch:
        yield "stream: a batched request cannot be streamed"
    if body.get("max_tokens") is None:
        yield f"max_tokens: {REQUIRED}"
    messages = body.get("messages")
    if messages is None:
        yield f"messages: {REQUIRED}"
    elif not isinstance(messages, list):
        yield "messages: expected an array"
    elif not messages:
        yield "messages: must not be empty"
    if body.get("mcp_servers"):
        yield "mcp_servers: MCP servers are not available here"
    if body.get("container") is not None:
        yield "container: containers are not available here"
    yield from _tool_problems(body.get("tools"))
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        if isinstance(message, dict):
            yield from _source_problems(message.get("content"), f"messages.{index}.content")


def _tool_problems(tools: object) -> Iterator[str]:
    for tool, path in blocks(tools, "tools"):
        kind = tool.get("type")
        if isinstance(kind, str) and kind.startswith(SERVER_TOOLS):
            yield f"{path}.type: server tools are not available here"


def _source_problems(content: object, path: str) -> Iterator[str]:
    """Give the blocks that take their data from the Files API or a container, at any depth."""
    for block, at in blocks(content, path):
        if block.get("type") == "container_upload":
            yield f"{at}: containers are not available here"
        source = block.get("source")
        if isinstance(source, dict):
            if source.get("type") == "file":
                yield f"{at}.source: files of a Files API are not available here"
            yield from _source_problems(source.get("content"), f"{at}.source.content")
        if block.get("type") != "tool_use":  # whose input may look like anything
            yield from _source_problems(block.get("content"), f"{at}.content")
