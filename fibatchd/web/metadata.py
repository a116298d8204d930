"""`metadata` of a create call: up to 16 string pairs for the client's own use."""

import msgspec

from fibatchd import rawjson
from fibatchd.errors import ApiError

MOST_PAIRS = 16
LONGEST_KEY = 64
LONGEST_VALUE = 512


def read_metadata(raw: msgspec.Raw | None) -> str | None:
    """Return metadata as the JSON text that is stored; None where it is null or left out. ApiError 400 otherwise."""
    value = None if raw is None else rawjson.decode(raw)
    if raw is None or value is None:
        return None
    if not isinstance(value, dict):
        raise ApiError(400, "metadata: expected an object", code="invalid_type", param="metadata")
    if len(value) > MOST_PAIRS:
        raise _refused(f"at most {MOST_PAIRS} pairs, has {len(value)}", "metadata")
    for key, text in value.items():
        _check(key, text)
    if (twice := rawjson.duplicate_member(bytes(raw), rawjson.split_object(raw))) is not None:
        raise _refused("occurs twice", f"metadata.{twice}")
    return msgspec.json.encode(value).decode()


def _check(key: str, text: object) -> None:
    if not 1 <= len(key) <= LONGEST_KEY:
        raise _refused(f"a key must have 1 to {LONGEST_KEY} characters", "metadata")
    if not rawjson.storable(key):
        raise _refused("a key must not contain NUL or lone surrogates", "metadata")
    param = f"metadata.{key}"
    if not isinstance(text, str):
        raise ApiError(400, f"{param}: expected a string", code="invalid_type", param=param)
    if len(text) > LONGEST_VALUE:
        raise _refused(f"must have at most {LONGEST_VALUE} characters", param)
    if not rawjson.storable(text):
        raise _refused("must not contain NUL or lone surrogates", param)


def _refused(what: str, param: str) -> ApiError:
    return ApiError(400, f"{param}: {what}", code="invalid_value", param=param)
