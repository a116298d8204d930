"""The fields of a small JSON body, and texts of a query: what is unknown or of the wrong form is refused by name."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
from quart import request

from fibatchd import rawjson
from fibatchd.errors import ApiError
from fibatchd.inference.endpoint import Problem
from fibatchd.inference.items import repeated_field, unknown_field
from fibatchd.inference.members import is_null

LONGEST_QUERY = 200


def refused(problem: Problem) -> ApiError:
    """Return the answer to a body of which this is wrong."""
    return ApiError(400, problem.message, code=problem.code, param=problem.param)


def read_fields(body: bytes, known: frozenset[str]) -> dict[str, msgspec.Raw]:
    """Return the members of a body that are not null. ApiError 400 for one that is not `known` or occurs twice;
    InvalidJson."""
    members = rawjson.read_object(body)
    if (twice := rawjson.duplicate_member(body, members)) is not None:
        raise refused(repeated_field(twice))
    for name in members:
        if name not in known:
            raise refused(unknown_field(name))
    return {name: raw for name, raw in members.items() if not is_null(raw)}


def text_of(fields: Mapping[str, msgspec.Raw], name: str, longest: int) -> str:
    """Return a field that must be a text of 1 to `longest` characters. ApiError 400."""
    raw = fields.get(name)
    if raw is None:
        raise ApiError(400, f"{name}: missing, expected a string", code="missing_required_parameter", param=name)
    value = rawjson.decode(raw)
    if not isinstance(value, str):
        raise ApiError(400, f"{name}: expected a string", code="invalid_type", param=name)
    if not 1 <= len(value) <= longest or not rawjson.storable(value):
        message = f"{name}: expected 1 to {longest} characters, without NUL"
        raise ApiError(400, message, code="invalid_value", param=name)
    return value


def query_text(name: str) -> str | None:
    """Return a query parameter, None where it is left out or empty. ApiError 400 for one that nothing can match."""
    text = request.args.get(name) or None
    if text is not None and (len(text) > LONGEST_QUERY or not rawjson.storable(text)):
        message = f"{name}: expected at most {LONGEST_QUERY} characters, without NUL"
        raise ApiError(400, message, code="invalid_value", param=name)
    return text


def query_words(name: str, known: AbstractSet[str] | None = None) -> tuple[str, ...] | None:
    """Return a query parameter's words, which commas separate; None where it is left out or empty. ApiError 400 for one
    that is not `known`."""
    text = query_text(name)
    if text is None:
        return None
    found = tuple(text.split(","))
    if known is not None and not known >= set(found):
        raise ApiError(400, f"{name}: expected some of {', '.join(sorted(known))}", code="invalid_value", param=name)
    return found
