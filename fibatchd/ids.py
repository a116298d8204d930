"""Identifiers: a prefix and the 32 hex digits of a UUIDv7 (RFC 9562, section 5.7), growing inside a process.

Lists are ordered by id and cursors are compared as text, so an id made later must sort later, also within a millisecond
and when the clock steps back.
"""

import os
import re
import secrets
import threading
import time

_lock = threading.Lock()
_last = 0

_COUNTER_BITS = 74  # rand_a and rand_b of RFC 9562 together, used as one counter with a random start
_ID = re.compile(r"[0-9a-f]{32}")


def new_id(prefix: str) -> str:
    """Return `prefix` + 32 hex digits, greater than every id this process made before."""
    global _last  # one sequence for the whole process is the point of it
    with _lock:
        milliseconds = time.time_ns() // 1_000_000
        if milliseconds > _last >> _COUNTER_BITS:
            _last = (milliseconds << _COUNTER_BITS) | secrets.randbits(_COUNTER_BITS - 1)
        else:
            _last += 1 + int.from_bytes(os.urandom(2))
        value = _last
    timestamp = value >> _COUNTER_BITS
    rand_a = (value >> 62) & 0xFFF
    rand_b = value & ((1 << 62) - 1)
    return f"{prefix}{(timestamp << 80) | (0x7 << 76) | (rand_a << 64) | (0x2 << 62) | rand_b:032x}"


def is_id(text: str, prefix: str) -> bool:
    """Whether `text` has the form that `new_id(prefix)` gives."""
    return text.startswith(prefix) and _ID.fullmatch(text, len(prefix)) is not None


def request_id() -> str:
    """Return an id for one HTTP request or one attempt: `req_` + 32 hex digits."""
    return new_id("req_")


def batch_request_id(number: int) -> str:
    """Return the public id of the batched request with this number."""
    return f"batch_req_{number}"


_BATCH_REQUEST = re.compile(r"batch_req_(0|[1-9][0-9]{0,18})")


def parse_batch_request_id(text: str) -> int | None:
    """Return the number in `batch_req_…`, or None where the form is another."""
    match = _BATCH_REQUEST.fullmatch(text)
    return int(match[1]) if match and int(match[1]) < 1 << 63 else None
