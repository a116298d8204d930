"""Query parameters of lists, and pages. A cursor is compared, never looked up; what is malformed is refused, not mended."""

import re
from collections.abc import Callable

from quart import request

from fibatchd.errors import ApiError
from fibatchd.ids import is_id

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def limit(default: int, most: int) -> int:
    """Return the query's `limit`, 1 to `most`. ApiError 400 for anything else."""
    return whole_number("limit", default, most)


def whole_number(name: str, default: int, most: int) -> int:
    """Return the query parameter `name`, 1 to `most`. ApiError 400 for anything else."""
    text = request.args.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
        raise ApiError(400, f"{name}: expected a whole number from 1 to {most}", code="invalid_value", param=name)
    return int(text)


def cursor(name: str, is_valid: Callable[[str], bool], example: str) -> str | None:
    """Return the cursor in the query parameter `name`, if it is there. ApiError 400 for one of another form."""
    text = request.args.get(name)
    if text is not None and not is_valid(text):
        raise ApiError(400, f"{name}: expected an ID such as {example}", code="invalid_value", param=name)
    return text


def id_cursor(name: str, prefix: str) -> str | None:
    """Return a cursor that is an id made by `new_id(prefix)`."""
    return cursor(name, lambda text: is_id(text, prefix), f"{prefix}6f1c0a7e2b8d4e55a1c3f9d2e4b6a8c0")
