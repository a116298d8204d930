"""Reads a chat server's answer: its parts as slices of its own text, and BrokenReply for what is none of the API's."""

from typing import Any

from msgspec import Raw

from fibatchd.plugin_api import BrokenReply, InvalidJson, is_null, rawjson


def members(raw: Raw | bytes | None) -> dict[str, Raw]:
    """Return an object's members without those that are null; none for null and for what is not there."""
    if is_null(raw):
        return {}
    try:
        found = rawjson.split_object(raw)  # type: ignore[arg-type]  # None is null
    except InvalidJson as error:
        raise BrokenReply(str(error)) from None
    return {name: value for name, value in found.items() if not is_null(value)}


def elements(raw: Raw | None) -> list[Raw]:
    """Return an array's elements; none for null and for what is not there."""
    if raw is None or is_null(raw):
        return []
    try:
        return rawjson.split_array(raw, len(raw))
    except InvalidJson as error:
        raise BrokenReply(str(error)) from None


def text(raw: Raw | None) -> Raw | None:
    """Return a string as it is written, None where there is none."""
    if raw is not None and memoryview(raw)[0] != ord('"'):
        raise BrokenReply("expected a string")
    return raw


def word(raw: Raw | None) -> str | None:
    """Return a string decoded, None where there is none."""
    raw = text(raw)
    return None if raw is None else str(rawjson.decode(raw))


def number(raw: Raw | None, otherwise: int) -> Any:
    """Return a number as it is written, another where there is none."""
    return otherwise if raw is None or memoryview(raw)[0] not in b"0123456789" else raw
