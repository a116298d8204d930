"""Vectors in base64: little-endian 32-bit floats, as OpenAI's `encoding_format` has them."""

import sys
from array import array
from base64 import b64encode

import msgspec
from msgspec import Raw

from fibatchd.plugin_api import BrokenReply, InvalidJson, rawjson

_decode_floats = msgspec.json.Decoder(list[float]).decode


def in_base64(data: Raw) -> bytes:
    """Return an answer's `data` with every vector in base64; the very same bytes where they are so already.

    Raises BrokenReply for an item that has no vector.
    """
    try:
        items = [bytes(item) for item in rawjson.split_array(data, len(data))]
        encoded = [_encoded(item) for item in items]
    except (InvalidJson, KeyError, msgspec.DecodeError) as error:
        raise BrokenReply(f"an item of data has no vector: {error}") from None
    return bytes(data) if encoded == items else b"[" + b",".join(encoded) + b"]"


def _encoded(item: bytes) -> bytes:
    vector = rawjson.split_object(item)["embedding"]
    if memoryview(vector)[0] == ord('"'):
        return item
    floats = array("f", _decode_floats(vector))
    if sys.byteorder == "big":
        floats.byteswap()
    return rawjson.replace_member(item, "embedding", b'"' + b64encode(floats) + b'"')
