"""The guards: what hypercorn 0.18 and quart-trio 0.12 need before they can face a network.

Each mends one defect, and goes when upstream mends it; tests/unit/web/test_guards_upstream.py says when that is.

    one connection's exception ends the process         Connection.run
    keep-alive time-out lost after the first answer     Pace, Connection.send
    a client that does not read blocks the shutdown     Connection._send_all
    request bodies are buffered without bound           BodyFlow, GuardedBody
    body limits count only what was not yet consumed    LimitedBody, GuardedProtocol
    heads and bodies may take for ever                  Pace
    a half-close counts as a disconnect                 Connection._watch
    ambiguous framing is accepted                       StrictReceiveBuffer
    error answers have no body                          GuardedProtocol.refuse
"""

from .body import BodyBudget, GuardedQuart, LimitedBody, read_body
from .connection import Connection
from .context import Context
from .limits import ErrorBody, Limits, openai_error

__all__ = [
    "BodyBudget",
    "Connection",
    "Context",
    "ErrorBody",
    "GuardedQuart",
    "LimitedBody",
    "Limits",
    "openai_error",
    "read_body",
]
