"""Whose a call of the page is: told by its session's cookie, once it is sure that the page itself makes the call.

A browser sends the cookie with whatever its own site asks. So a call that may change something must carry a header that
pages of other origins cannot set without asking first (Fetch standard, CORS preflight), which is never granted here.
"""

from contextlib import suppress

from quart import Response, after_this_request, request
from werkzeug.wrappers.response import Response as AnyResponse

from fibatchd.plugin_api import ApiError, StoreUnavailable, front

from . import sessions
from .settings import TABLE, Settings

HEADER = "X-Fibatchd-Console"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def cookie_name() -> str:
    """Return the name of the session's cookie: over TLS one that only this host can have set, and only over TLS (RFC 6265bis,
    4.1.3.2)."""
    return "__Host-fibatchd" if request.scheme == "https" else "fibatchd"


async def identify() -> str | None:
    """Return the id of the key whose session the current request's cookie names; None without a cookie or a session.

    ApiError 403 for a call that may change something and may come from another page; 429 where too many from this address
    were of nobody.
    """
    token = request.cookies.get(cookie_name())
    context = front().context
    if not token or not context.config.is_on(TABLE):
        return None
    digest, failures, address = sessions.token_hash(token), front().failed_keys, request.remote_addr
    known_as = digest.encode()
    failures.check(address, known_as)
    async with failures.turn(known_as):
        session = await context.store.read(sessions.find, digest, Settings.of(context.config).session_idle_s)
    if session is None:
        failures.failed(address)
        return None
    failures.succeeded(known_as)
    if request.method not in SAFE:
        require_own_page()
    if session.is_stale:
        # Where nothing can be written, such as on a full disk, there is much to look at.
        with suppress(StoreUnavailable):
            await context.store.write(sessions.touch, digest)
    after_this_request(_keep_private)
    return session.key_id


def require_own_page() -> None:
    """ApiError 403 unless the current request comes from a page of this origin."""
    if HEADER not in request.headers or not _is_same_origin():
        raise ApiError(403, "The call does not come from the console's own page", code="cross_site_request")


def _is_same_origin() -> bool:
    """Whether the browser says so; what is no browser says nothing, and has no cookie that it did not put there itself."""
    if (site := request.headers.get("Sec-Fetch-Site")) is not None:
        return site == "same-origin"
    # Browsers leave that header out on plain http, and send this one with whatever may change something.
    origin = request.headers.get("Origin")
    return origin is None or origin.partition("://")[2] == request.host


def _keep_private(answer: Response | AnyResponse) -> Response | AnyResponse:
    answer.headers.setdefault("Cache-Control", "no-store")
    # What a model wrote is shown as what it is said to be.
    answer.headers.setdefault("X-Content-Type-Options", "nosniff")
    answer.vary.add("Cookie")
    return answer
