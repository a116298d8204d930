"""What an upstream's answer, or its absence, means: an error code, whether it may pass, whether its cost is known.

Pure. The codes are those of the batch API; the statuses behind them are what clients are told.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from fibatchd import rawjson
from fibatchd.domain.requests import Failure
from fibatchd.errors import (
    AnswerBroken,
    AnswerTimeout,
    AnswerTooLarge,
    ConnectionLost,
    InvalidJson,
    UpstreamError,
)

INVALID = "invalid_request"
NOT_FOUND = "model_not_found"
FORBIDDEN = "forbidden"
RATE_LIMITED = "rate_limited"
TIMEOUT = "timeout"
UNAVAILABLE = "service_unavailable"
UPSTREAM = "upstream_error"
TOO_LARGE = "result_too_large"

MESSAGE_MAX = 1000
CLEANED_MAX = 4 * MESSAGE_MAX
"""So much of a message is looked at: it may quote the prompt, and be as long. What is left out of it makes it shorter."""
ERROR_BODY_MAX = 256 * 1024
"""A larger body is no error message; it is not parsed, for that would hold the loop."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`retry`: it may pass. `cost_known`: the attempt cost nothing; else nobody can tell. `breaks`: it counts towards
    taking the upstream out."""

    failure: Failure
    retry: bool
    cost_known: bool
    breaks: bool = False


_CODES = {
    401: UPSTREAM, 403: FORBIDDEN, 404: NOT_FOUND, 408: TIMEOUT, 429: RATE_LIMITED, 503: UNAVAILABLE, 504: TIMEOUT
}  # fmt: skip
# A gateway between us and the model gave up: the model may have run all the same.
_COST_UNKNOWN = frozenset({408, 502, 504, 524})
_TEXTS = {
    TIMEOUT: "The model's server did not answer in time",
    RATE_LIMITED: "The model's server is limiting requests",
    UNAVAILABLE: "The model's server is not available at the moment",
    UPSTREAM: "The model's server failed",
    NOT_FOUND: "The model's server does not know the model",
    FORBIDDEN: "The model's server refused the request",
    INVALID: "The model's server rejected the request as invalid",
}


def of_status(status: int, body: bytes, *, upstream_model: str, model: str, private: Sequence[str] = ()) -> Verdict:
    """Judge an answer that is no success. What the upstream says is passed on only where it concerns the request, and
    without what is the operator's: `private` are texts of the upstream's configuration, its key among them."""
    code = _CODES.get(status, INVALID if 400 <= status < 500 else UPSTREAM)
    retry = status in (401, 408, 429) or status >= 500 or status < 400
    told = status
    if status == 401 or not 400 <= status < 600:
        # The operator's key is wrong, or the address is (a redirect, a status of no HTTP): nothing the client could mend.
        told = 502
    elif code == TIMEOUT:
        told = 504
    text = _TEXTS[code]
    if code in (INVALID, FORBIDDEN) and (said := _said(body)):
        text = _clean(said, upstream_model, model, private)
    known = status not in _COST_UNKNOWN
    return Verdict(Failure(code, text, told), retry, known, breaks=status == 401)


def of_error(error: UpstreamError) -> Verdict:
    """Judge an attempt that was sent and had no whole answer."""
    if isinstance(error, AnswerTimeout):
        return Verdict(Failure(TIMEOUT, _TEXTS[TIMEOUT], 504), retry=True, cost_known=False)
    if isinstance(error, AnswerTooLarge):
        text = "The response was larger than a batch result may be"
        return Verdict(Failure(TOO_LARGE, text, None), retry=False, cost_known=False)
    if isinstance(error, AnswerBroken):
        return broken_answer()
    assert isinstance(error, ConnectionLost), error
    text = "The connection to the model's server was lost before the answer was complete"
    return Verdict(Failure(UPSTREAM, text, 502), retry=True, cost_known=False, breaks=True)


def broken_answer() -> Verdict:
    """Judge a success that is none: half a body, an HTML page, no JSON object, not the API's shape."""
    text = "The model's server sent a broken answer"
    return Verdict(Failure(UPSTREAM, text, 502), retry=True, cost_known=False)


def retry_after(value: bytes | None, now: float) -> float | None:
    """Return the seconds that a `Retry-After` header asks for (RFC 9110, section 10.2.3), None where it has none."""
    if value is None:
        return None
    text = value.decode("latin-1").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text, re.ASCII):
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter for a year beyond any integer of C
        return None
    return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)


def _said(body: bytes) -> str | None:
    """Return the message in an error body, in any of the shapes that model servers use."""
    if len(body) > ERROR_BODY_MAX:
        return None
    try:
        value = rawjson.decode(body) if rawjson.is_object(body) else None
    except InvalidJson:
        return None
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    found = error.get("message") if isinstance(error, dict) else error
    for candidate in (found, value.get("message"), value.get("detail")):
        if isinstance(candidate, str) and candidate.strip():
            return candidate
    return None


# No name begins inside another: else each of its characters would be tried as a beginning, in quadratic time.
_ADDRESS = re.compile(
    r"(?<![a-zA-Z0-9+.-])[a-zA-Z0-9+.-]++://[^\s\"'<>]+"  # URLs
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"  # IPv4
    r"|\[[0-9a-fA-F:]+\](?::\d+)?"  # IPv6 in brackets
    r"|(?<![a-zA-Z0-9.-])[a-zA-Z0-9.-]++:\d{2,5}\b"  # host:port
)


def _clean(text: str, upstream_model: str, model: str, private: Sequence[str]) -> str:
    """Make an upstream's message fit for clients: one line, bounded, no addresses, nothing private, the model under its
    public name."""
    if len(text) > CLEANED_MAX:
        text = text[:CLEANED_MAX]
        text = text.rpartition(" ")[0] or text  # not half an address at the end
    text = re.sub(r"[\x00-\x1f\x7f]+", " ", text).encode("utf-8", "replace").decode()
    text = _ADDRESS.sub("…", text)
    for part in sorted(private, key=len, reverse=True):
        text = _alone(part).sub("…", text)
    if upstream_model and upstream_model != model:
        text = _alone(upstream_model).sub(lambda _: model, text)
    text = text.strip()
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 1] + "…"


def _alone(word: str) -> re.Pattern[str]:
    """Return what finds a text that is no part of a longer word: a model may be called `m`, and a host `chat`."""
    return re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", re.IGNORECASE)
