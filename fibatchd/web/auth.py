"""Who is calling: every route asks for a valid key unless its view is marked `public`."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from quart import current_app, g, request

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
    suspended account."""
    if request.routing_exception is not None or is_public():
        return
    secret = _sent_key()
    if not secret:
        raise ApiError(401, MISSING, code="missing_api_key")
    found = (
        await front().context.store.read(accounts.authenticate, secret_hash(secret)) if looks_like_key(secret) else None
    )
    if found is None:
        raise ApiError(401, INVALID, code="invalid_api_key")
    account, key, now = found
    _check(account, key, now)
    g.caller = Caller(account, key)
    request.scope["state"]["account"] = account.id


def is_public() -> bool:
    """Whether the current request's view is called without a key."""
    return getattr(current_app.view_functions.get(request.endpoint or ""), "is_public", False)


def _sent_key() -> str | None:
    """Return the key as it was sent. `X-API-Key` wins; one that is empty counts as not sent."""
    if direct := request.headers.get("X-API-Key", "").strip():
        return direct
    bearer = _BEARER.fullmatch(request.headers.get("Authorization", "").strip())
    return bearer[1] if bearer else None


def _check(account: Account, key: Key, now: float) -> None:
    if account.status == DELETED:
        raise ApiError(401, INVALID, code="invalid_api_key")
    if key.is_revoked(now):
        raise ApiError(401, "The API key has been revoked", code="revoked_api_key")
    if key.is_expired(now):
        raise ApiError(401, "The API key has expired", code="expired_api_key")
    if account.status == SUSPENDED:
        raise ApiError(403, "The account is suspended", code="account_suspended")
