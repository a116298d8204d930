"""The members of one batched request, in whatever form it came: shared checks, each a value or a Problem.

Nearly all requests have the same form, and of those that have it the form is checked at one go.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from fibatchd import rawjson
from fibatchd.inference.endpoint import Problem
from fibatchd.inference.target import INVALID_TYPE, MISSING

LONGEST_CUSTOM_ID = 512

_LEAST = len('{"custom_id":"","body":}')
_METHOD = len(',"method":"POST"')
_URL = len(',"url":""')
_ONCE_MORE = len(',"url":0')


class Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A request of the usual form. `body` is JSON of any kind."""

    custom_id: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_CUSTOM_ID)]
    body: msgspec.Raw
    method: Literal["POST"] | UnsetType = UNSET
    url: str | UnsetType = UNSET


_decode_item = msgspec.json.Decoder(Item).decode


def usual_item(text: bytes) -> Item | None:
    """Return an item in which nothing but its url and its body can be wrong. None where the other checks of this module have
    to look: at what is wrong, and at what is right and unusual."""
    item = rawjson.read_as(text, _decode_item)
    if item is None or "\0" in item.custom_id:
        return None
    unused = len(text) - _LEAST - len(item.custom_id) - len(item.body)
    if item.method is not UNSET:
        unused -= _METHOD
    if item.url is not UNSET:
        unused -= _URL + len(item.url)
    # The decoder does not tell of a member that occurs twice: here no other one has room.
    return item if unused < _ONCE_MORE else None


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
