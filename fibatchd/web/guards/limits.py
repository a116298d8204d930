"""What a client may take of the front end: time, bytes, connections; and the shape of the answers given below the app."""

import json
from collections.abc import Callable
from dataclasses import dataclass

ErrorBody = Callable[[str, int, str, str], bytes]
"""`(path, status, message, request_id) -> JSON body`: the error shape of the API that `path` belongs to."""


@dataclass(frozen=True)
class Limits:
    """The guards' settings. Times in seconds, sizes in bytes; `math.inf` switches one off."""

    head_s: float = 10
    """A request's head is whole this long after its first byte; on a new connection, after it was accepted."""
    idle_s: float = 75
    """A connection that was kept alive may stay silent this long."""
    body_window_s: float = 30
    body_floor: float = 1024
    """A body brings at least `body_floor` bytes a second in every window of `body_window_s`."""
    send_s: float = 30
    """The client takes each 64 KiB of an answer within this time."""
    linger_s: float = 30
    """After an early answer, what the client still sends is read and dropped for so long (RFC 9112, 9.6)."""
    probe_s: float = 1
    """How often a client that has closed its sending side is checked for having left."""
    max_head_bytes: int = 32 * 1024
    max_headers: int = 100
    max_body_bytes: float = 64 * 1024 * 1024
    """Hard cap; a route sets its own, lower one when it reads the body."""
    body_high_water: float = 256 * 1024
    """Bytes of one body that may wait for its handler before the socket is left unread."""
    max_connections: int = 8192


def openai_error(_path: str, status: int, message: str, _request_id: str) -> bytes:
    """The default error shape: OpenAI's."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}}).encode()
