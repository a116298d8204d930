"""The versions of the Messages API that are spoken here, and what the later one changes.

A batch keeps the version it was created with; each of its requests is judged by that version's rules, whatever runs it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .fields import EXTRA

HEADER = "anthropic-version"
FIRST = "2023-06-01"
SECOND = "2026-10-21"
VERSIONS = (FIRST, SECOND)

SAMPLING = ("temperature", "top_p", "top_k")


def version_problem(body: Mapping[str, Any], version: str) -> str | None:
    """Return what the version's rules forbid in a decoded body, as `path: why`; None where nothing.

    Shapes are not judged here: what is not of the documented form is passed over.
    """
    if version != SECOND:
        return None
    removed = next((name for name in SAMPLING if body.get(name) is not None), None)
    if removed is not None:
        return f"{removed}: {EXTRA}"
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        if isinstance(message, dict):
            for problem in _message_problems(message, f"messages.{index}.content"):
                return problem
    return None


def blocks(content: object, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Give the blocks of a content array, each with its path."""
    for index, block in enumerate(content if isinstance(content, list) else []):
        if isinstance(block, dict):
            yield block, f"{path}.{index}"


def _message_problems(message: dict[str, Any], path: str) -> Iterator[str]:
    for block, at in blocks(message.get("content"), path):
        if message.get("role") == "assistant":
            if block.get("type") == "document":
                yield f"{at}: a document block is not permitted directly in an assistant message in version {SECOND}"
        else:
            yield from _citation_problems(block, at)


def _citation_problems(block: dict[str, Any], path: str) -> Iterator[str]:
    """Give the texts of a user's block that carry citations: directly, or in a search result at any place."""
    kind = block.get("type")
    if kind == "text" and block.get("citations"):
        yield f"{path}.citations: citations are not permitted on a user's text in version {SECOND}"
    for inner, at in blocks(block.get("content"), f"{path}.content"):
        if kind == "search_result" or (kind == "tool_result" and inner.get("type") == "search_result"):
            yield from _citation_problems(inner, at)
