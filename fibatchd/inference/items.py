"""The members of one batched request, in whatever form it came: shared checks, each a value or a Problem."""

import msgspec

from fibatchd import rawjson
from fibatchd.inference.endpoint import Problem
from fibatchd.inference.target import INVALID_TYPE, MISSING

LONGEST_CUSTOM_ID = 512


def unknown_field(name: str) -> Problem:
    """Return what is said of a field that is not known."""
    return Problem(f"{rawjson.shown(name)}: unknown field", rawjson.shown(name), "unknown_parameter")


def repeated_field(name: str) -> Problem:
    """Return what is said of a field that occurs twice."""
    return Problem(f"{rawjson.shown(name)}: occurs twice", rawjson.shown(name), "invalid_value")


def custom_id_of(raw: msgspec.Raw | None) -> str | Problem:
    """Return a `custom_id`: a string of 1 to 512 code points that every database can hold."""
    value = None if raw is None else rawjson.decode(raw)
    if value is None:
        return Problem("custom_id: missing, expected a string", "custom_id", MISSING)
    if not isinstance(value, str):
        return Problem("custom_id: expected a string", "custom_id", INVALID_TYPE)
    if not 1 <= len(value) <= LONGEST_CUSTOM_ID:
        return Problem(f"custom_id: must have 1 to {LONGEST_CUSTOM_ID} characters", "custom_id", "invalid_value")
    if not rawjson.storable(value):
        return Problem("custom_id: must not contain NUL or lone surrogates", "custom_id", "invalid_value")
    return value


def method_problem(raw: msgspec.Raw | None) -> Problem | None:
    """Return what is wrong with a `method` that is there, if anything; one that is null or left out is POST."""
    value = None if raw is None else rawjson.decode(raw)
    if value is None or value == "POST":
        return None
    if not isinstance(value, str):
        return Problem("method: expected a string", "method", INVALID_TYPE)
    return Problem("method: must be POST", "method", "invalid_value")


def url_of(raw: msgspec.Raw | None) -> str | Problem | None:
    """Return a `url`; None for one that is null or left out."""
    value = None if raw is None else rawjson.decode(raw)
    if value is None or isinstance(value, str):
        return value
    return Problem("url: expected a string", "url", INVALID_TYPE)
