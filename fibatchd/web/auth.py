"""Who is calling: every route asks for a valid key unless its view is marked `public`. A plugin may tell the key of a
request that carries none."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from quart import current_app, g, request
from werkzeug.exceptions import NotFound

from fibatchd.context import Caller
from fibatchd.domain.accounts import DELETED, SUSPENDED, Account, Key, looks_like_key, secret_hash
from fibatchd.errors import ApiError
from fibatchd.store import accounts
from fibatchd.web.front import front

View = TypeVar("View", bound=Callable[..., Any])

_BEARER = re.compile(r"Bearer +(\S.*)", re.IGNORECASE)

MISSING = "No API key was sent; send it as `Authorization: Bearer …` or `X-API-Key: …`"
INVALID = "The API key is not valid"


def public(view: View) -> View:
    """Mark a view that is called without a key."""
    view.is_public = True  # type: ignore[attr-defined]
    return view


def caller() -> Caller:
    """Return who makes the current request."""
    found: Caller = g.caller
    return found


async def authenticate() -> None:
    """Set the caller of the current request. Raises ApiError: 401 for a key that is missing or not good, 403 for one of a
    suspended account; NotFound for a path that no route is written like."""
    if request.scope["path"].startswith("//"):
        # The router takes slashes off the front, and a proxy that shuts a path off may not have.
        raise NotFound
    if request.routing_exception is not None or is_public():
        return
    secret = _sent_key()
    g.caller = found = await caller_by(secret) if secret else await _identified()
    request.scope["state"]["account"] = found.account.id


async def caller_by(secret: str) -> Caller:
    """Return whose key this is. Raises ApiError: 401 for one that is not good, 403 for one of a suspended account, 429 where
    too many from this address were of nobody."""
    failures, address, digest = front().failed_keys, request.remote_addr, secret_hash(secret)
    failures.check(address, digest)
    found = None
    if looks_like_key(secret):
        async with failures.turn(digest):
            found = await front().context.store.read(accounts.authenticate, digest)
    if found is None:
        failures.failed(address)
    who = _checked(found)
    failures.succeeded(digest)
    return who


async def caller_of_key(key_id: str) -> Caller:
    """Return whose key has this id. Raises ApiError as `caller_by` does."""
    return _checked(await front().context.store.read(accounts.owner_of, key_id))


async def _identified() -> Caller:
    """Return the caller of a request without a key, as the first plugin that knows tells it; else ApiError 401."""
    for identify in front().identify:
        if (key_id := await identify()) is not None:
            return await caller_of_key(key_id)
    raise ApiError(401, MISSING, code="missing_api_key")


def is_public() -> bool:
    """Whether the current request's view is called without a key."""
    return getattr(current_app.view_functions.get(request.endpoint or ""), "is_public", False)


def _sent_key() -> str | None:
    """Return the key as it was sent. `X-API-Key` wins; one that is empty counts as not sent."""
    if direct := request.headers.get("X-API-Key", "").strip():
        return direct
    bearer = _BEARER.fullmatch(request.headers.get("Authorization", "").strip())
    return bearer[1] if bearer else None


def _checked(found: tuple[Account, Key, float] | None) -> Caller:
    if found is None:
        raise ApiError(401, INVALID, code="invalid_api_key")
    account, key, now = found
    if account.status == DELETED:
        raise ApiError(401, INVALID, code="invalid_api_key")
    if key.is_revoked(now):
        raise ApiError(401, "The API key has been revoked", code="revoked_api_key")
    if key.is_expired(now):
        raise ApiError(401, "The API key has expired", code="expired_api_key")
    if account.status == SUSPENDED:
        raise ApiError(403, "The account is suspended", code="account_suspended")
    return Caller(account, key)
