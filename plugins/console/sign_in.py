"""`/console/session`: exchange a key for a session, say whose the session is, end it.

Whatever is wrong with a key is answered alike: who guesses learns nothing.
"""

import math
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import msgspec
import structlog
from quart import Blueprint, Response, request

from fibatchd.plugin_api import (
    ApiError,
    Attempts,
    Caller,
    Config,
    caller_by,
    caller_of_key,
    front,
    public,
    rawjson,
    read_body,
)

from . import sessions
from .identity import cookie_name, identify, require_own_page
from .settings import TABLE, Settings

LONGEST_BODY = 4096
PATH = "/console/session"
REFUSED = "This key does not work: it is unknown, revoked or expired, or its account is suspended"
_ATTRIBUTES: Mapping[str, Any] = {"path": "/", "httponly": True, "samesite": "Strict"}

log = structlog.get_logger(__name__)


def blueprint() -> Blueprint:
    """Return the routes."""
    routes = Blueprint("console_session", __name__)
    attempts = Attempts(size=10, per_s=1 / 6)

    @routes.post(PATH)
    @public
    async def sign_in() -> Response:
        return await begin(attempts)

    routes.get(PATH)(public(show))
    routes.delete(PATH)(public(end))
    return routes


async def begin(attempts: Attempts) -> Response:
    """Exchange a key for a session, and say whose it is."""
    context = front().context
    require_on(context.config)
    require_own_page()
    client = request.remote_addr
    if wait := attempts.take(client):
        message = "Too many attempts to sign in have failed; wait a little"
        raise ApiError(429, message, code="too_many_sign_ins", retry_after=math.ceil(wait))
    who = await _owner_of_key(await read_body(request, LONGEST_BODY))
    attempts.give_back(client)
    token, lasts = sessions.new_token(), Settings.of(context.config).session_max_s
    await context.store.write(sessions.begin, sessions.token_hash(token), who.key, lasts, instead_of=_sent_session())
    log.info("signed in", account=who.account.id, key_id=who.key.id, client=client)
    answer = _answer(session_object(who))
    answer.set_cookie(cookie_name(), token, max_age=int(lasts), **_ATTRIBUTES, secure=request.scheme == "https")
    return answer


async def show() -> Response:
    """Say whose the session is. That there is none is an answer, too: the page asks when it opens."""
    try:
        key_id = await identify()
        who = await caller_of_key(key_id) if key_id is not None else None
    except ApiError as refusal:
        if refusal.status == 429:  # it tells of the address, not of the session
            raise
        who = None  # its key or account is not valid any more
    return _answer(session_object(who) if who is not None else {"object": "console.session", "signed_in": False})


async def end() -> Response:
    """End the session."""
    require_own_page()
    if (digest := _sent_session()) is not None:
        await front().context.store.write(sessions.end, digest)
    answer = _answer({"object": "console.session", "signed_in": False})
    answer.delete_cookie(cookie_name(), **_ATTRIBUTES, secure=request.scheme == "https")
    return answer


def require_on(config: Config) -> None:
    """ApiError 404 while the console is switched off."""
    if not config.is_on(TABLE):
        raise ApiError(404, "The console is not enabled", code="console_disabled")


def _sent_session() -> str | None:
    """Return the hash of the token in the cookie that was sent."""
    token = request.cookies.get(cookie_name())
    return sessions.token_hash(token) if token else None


async def _owner_of_key(body: bytes) -> Caller:
    """Return whose the key is that a call names. Raises InvalidJson, ApiError 400; 401, whatever is wrong with the key."""
    secret = rawjson.decode(rawjson.read_object(body).get("api_key", b"null"))
    if not isinstance(secret, str):
        raise ApiError(400, "api_key: expected a string", code="invalid_type", param="api_key")
    try:
        return await caller_by(secret.strip())
    except ApiError as refusal:
        if refusal.status == 429:  # it tells of the address, not of the key
            raise
        log.info("sign-in refused", client=request.remote_addr, reason=refusal.code)
        raise ApiError(401, REFUSED, code="invalid_api_key") from None


def session_object(who: Caller) -> dict[str, Any]:
    """Return whose a session is, and the server's version and time; `GET /v1/account` tells the rest."""
    return {
        "object": "console.session",
        "signed_in": True,
        "account": {"id": who.account.id, "name": who.account.name},
        "version": version("fibatchd"),
        "now": time.time(),
    }


def _answer(value: Mapping[str, Any]) -> Response:
    return Response(msgspec.json.encode(value), headers={"Cache-Control": "no-store"}, content_type="application/json")
