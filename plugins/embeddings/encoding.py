"""Vectors in base64: little-endian 32-bit floats, as OpenAI's `encoding_format` has them."""

import sys
from array import array
from base64 import b64encode
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from fibatchd.plugin_api import rawjson


class _Item(msgspec.Struct):
    embedding: Raw


_decode_item = msgspec.json.Decoder(_Item).decode
_decode_floats = msgspec.json.Decoder(list[float]).decode


def in_base64(body: bytes, items: Sequence[Raw]) -> bytes:
    """Return an answer, whose `data` are `items`, with all vectors in base64; the answer itself where they are already.

    Raises msgspec.DecodeError for an item that has no vector.
    """
    encoded = [_encoded(item) for item in items]
    if not any(encoded):
        return body
    data = b",".join(new or bytes(old) for new, old in zip(encoded, items, strict=True))
    return rawjson.replace_member(body, "data", b"[" + data + b"]")


def _encoded(item: Raw) -> bytes | None:
    """Return an item with its list of floats in base64, None where it has a string already."""
    embedding = _decode_item(item).embedding
    if memoryview(embedding)[0] == ord('"'):
        return None
    floats = array("f", _decode_floats(embedding))
    if sys.byteorder == "big":
        floats.byteswap()
    return rawjson.replace_member(bytes(item), "embedding", b'"' + b64encode(floats) + b'"')
