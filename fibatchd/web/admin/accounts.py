"""Accounts, their keys, and the tiers they may be on: what `fibatchd account` and `fibatchd key` do, by HTTP."""

from collections.abc import Callable
from typing import Any

import msgspec
from quart import Response, request

from fibatchd import rawjson
from fibatchd.administration import LONGEST_TEXT, pinned, shown_account, shown_key, text_problem, tier_problem
from fibatchd.domain.accounts import ACTIVE, DELETED, SUSPENDED
from fibatchd.errors import ApiError
from fibatchd.ids import is_id
from fibatchd.inference.catalogue import NOT_FOUND
from fibatchd.inference.entitlement import ADMIN_TIER
from fibatchd.inference.members import is_null
from fibatchd.money import parse_usd
from fibatchd.store import accounts as scripts
from fibatchd.store import operations
from fibatchd.store.interface import Script
from fibatchd.store.operations import Standings
from fibatchd.web import paging
from fibatchd.web.admin.changes import note
from fibatchd.web.auth import caller
from fibatchd.web.conditional import json_answer
from fibatchd.web.fields import query_text, query_words, read_fields, text_of
from fibatchd.web.front import front
from fibatchd.web.guards import read_body
from fibatchd.web.render import encode, list_object, usd

MAX_BODY_BYTES = 64 * 1024
MOST_SECONDS = 10**9
MOST_MODELS = 1000

_STATUSES = frozenset({ACTIVE, SUSPENDED, DELETED})


async def list_accounts() -> Response:
    """Return a page of accounts, newest first."""
    found, has_more = await front().context.store.read(
        operations.accounts,
        after=paging.id_cursor("after", "acct_"),
        limit=paging.limit(20, 100),
        statuses=query_words("status", _STATUSES),
        text=query_text("q"),
    )
    items = [encode(_account_object(account)) for account in found]
    return json_answer(list_object(items, [one.account.id for one in found], has_more=has_more))


async def create_account() -> Response:
    """Create an account."""
    fields = await _fields("name", "tier")
    name, tier = _name(fields), _tier(fields)
    account = await front().context.store.write(scripts.create_account, name, tier)
    note("account.create", target=account.id, tier=tier)
    # Not read anew: a store that is lost by then would have the answer say that nothing was stored.
    return json_answer(_account_object(Standings(account, spent_today=0, unfinished=0)))


async def show_account(account_id: str) -> Response:
    """Return one account."""
    return json_answer(await _shown(account_id))


async def delete_account(account_id: str) -> Response:
    """Delete an account."""
    _refuse_own(account_id)
    await _change(account_id, scripts.delete_account, account_id)
    note("account.delete", target=account_id)
    return json_answer({"id": account_id, "object": "admin.account.deleted", "deleted": True})


async def suspend_account(account_id: str) -> Response:
    """Shut an account out."""
    _refuse_own(account_id)
    await _change(account_id, scripts.set_account_status, account_id, SUSPENDED)
    note("account.suspend", target=account_id)
    return json_answer(await _shown(account_id))


async def resume_account(account_id: str) -> Response:
    """Let a suspended account in again."""
    await _change(account_id, scripts.set_account_status, account_id, ACTIVE)
    note("account.resume", target=account_id)
    return json_answer(await _shown(account_id))


async def set_tier(account_id: str) -> Response:
    """Move an account to another tier."""
    tier = _tier(await _fields("tier"))
    _refuse_own(account_id)
    await _change(account_id, scripts.set_account_tier, account_id, tier)
    note("account.set_tier", target=account_id, tier=tier)
    return json_answer(await _shown(account_id))


async def set_quota(account_id: str) -> Response:
    """Give an account a daily quota of its own, or none."""
    quota = read_quota(await read_body(request, MAX_BODY_BYTES))
    await _change(account_id, scripts.set_account_quota, account_id, quota)
    note("account.set_quota", target=account_id)
    return json_answer(await _shown(account_id))


async def list_keys(account_id: str) -> Response:
    """Return an account's keys, oldest first."""
    await standings_of(account_id)
    keys = await front().context.store.read(scripts.list_keys, account_id)
    items = [encode({"object": "admin.key"} | shown_key(key)) for key in keys]
    return json_answer(list_object(items, [key.id for key in keys], has_more=False))


async def create_key(account_id: str) -> Response:
    """Create a key and show its secret, this once."""
    fields = await _fields("expires_in_s", "models")
    expires_in, models = _expires_in(fields.get("expires_in_s")), _models(fields.get("models"))
    made = None
    if is_id(account_id, "acct_"):
        store = front().context.store
        made = await store.write(scripts.create_key, account_id, expires_in=expires_in, models=models)
    if made is None:
        raise _no_account()
    key, secret = made
    note("key.create", target=key.id, of=account_id)
    return json_answer({"object": "admin.key"} | shown_key(key) | {"secret": secret})


async def revoke_key(key_id: str) -> Response:
    """Revoke a key, and return it as it is then."""
    store = front().context.store
    if not is_id(key_id, "key_") or not await store.write(scripts.revoke_key, key_id):
        raise _no_key()
    note("key.revoke", target=key_id)
    key = await store.read(scripts.get_key, key_id)
    if key is None:  # its account was deleted meanwhile
        raise _no_key()
    return json_answer({"object": "admin.key"} | shown_key(key))


async def list_tiers() -> Response:
    """Return the tiers of the configuration."""
    config = front().context.config
    items = [
        {
            "object": "admin.tier",
            "name": tier.name,
            "batch_concurrency": tier.batch_concurrency,
            "interactive_concurrency": tier.interactive_concurrency,
            "daily_quota_usd": None if tier.daily_quota is None else usd(tier.daily_quota),
            "can_create_batches": tier.name in config.batches.create_tiers,
            "is_admin": tier.name == ADMIN_TIER,
            "models": [model.id for model in config.models if model.is_open_to(tier.name)],
        }
        for tier in config.tiers.values()
    ]
    return json_answer(list_object([encode(item) for item in items], list(config.tiers), has_more=False))


async def _shown(account_id: str) -> dict[str, Any]:
    return _account_object(await standings_of(account_id))


async def standings_of(account_id: str) -> Standings:
    """Return an account. ApiError 404 where there is none; one that was deleted is still there to be seen."""
    found = None
    if is_id(account_id, "acct_"):
        found = await front().context.store.read(operations.account, account_id)
    if found is None:
        raise _no_account()
    return found


def _account_object(found: Standings) -> dict[str, Any]:
    account = found.account
    shown = {"object": "admin.account"} | shown_account(account, front().context.config)
    return shown | {
        "has_own_quota": account.quota_set,
        "spent_today_usd": usd(found.spent_today),
        "unfinished_batches": found.unfinished,
    }


async def _change(account_id: str, script: Callable[..., Script[bool]], *args: Any) -> None:
    """Run a script on an account. ApiError 404 where there is none, or it was deleted."""
    if not is_id(account_id, "acct_") or not await front().context.store.write(script, *args):
        raise _no_account()


def _no_account() -> ApiError:
    return ApiError(404, "There is no account with this ID", code="account_not_found")


def _no_key() -> ApiError:
    return ApiError(404, "There is no key with this ID", code="key_not_found")


def _refuse_own(account_id: str) -> None:
    """ApiError 409 for what would shut out whoever asks for it."""
    if caller().account.id == account_id:
        message = "This is the account that makes the call; use another administrator's"
        raise ApiError(409, message, code="own_account", retry=False)


async def _fields(*names: str) -> dict[str, msgspec.Raw]:
    return read_fields(await read_body(request, MAX_BODY_BYTES) or b"{}", frozenset(names))


def _name(fields: dict[str, msgspec.Raw]) -> str:
    name = text_of(fields, "name", LONGEST_TEXT)
    if (problem := text_problem(name)) is not None:
        raise ApiError(400, f"name: {problem}", code="invalid_value", param="name")
    return name


def _tier(fields: dict[str, msgspec.Raw]) -> str:
    tier = text_of(fields, "tier", LONGEST_TEXT)
    if (problem := tier_problem(front().context.config, tier)) is not None:
        raise ApiError(400, f"tier: {problem}", code="unknown_tier", param="tier")
    return tier


def read_quota(body: bytes) -> int | None:
    """Return the quota that a body sets, in pico-USD, None for none. ApiError 400 where it names none: null has to be said.
    InvalidJson."""
    name = "daily_quota_usd"
    raw = rawjson.read_object(body).get(name)
    if raw is None:
        message = f"{name}: missing, expected an amount of USD, or null for no quota"
        raise ApiError(400, message, code="missing_required_parameter", param=name)
    read_fields(body, frozenset({name}))
    if is_null(raw):
        return None
    value = rawjson.decode(raw)
    try:
        # A number is taken as it was written: binary fractions are not money.
        return parse_usd(value if isinstance(value, str) else bytes(raw).decode())
    except ValueError:
        message = f"{name}: expected an amount of USD below 1000000, a plain decimal such as 20.00, or null"
        raise ApiError(400, message, code="invalid_value", param=name) from None


def _expires_in(raw: msgspec.Raw | None) -> float | None:
    value = None if raw is None else rawjson.decode(raw)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_SECONDS:
        message = f"expires_in_s: expected a number of seconds above 0, at most {MOST_SECONDS}"
        raise ApiError(400, message, code="invalid_value", param="expires_in_s")
    return float(value)


def _models(raw: msgspec.Raw | None) -> list[str] | None:
    value = None if raw is None else rawjson.decode(raw)
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or not 1 <= len(value) <= MOST_MODELS
        or any(type(name) is not str for name in value)
    ):
        raise ApiError(400, "models: expected a list of models' names", code="invalid_type", param="models")
    ids, unknown = pinned(front().context.config, value)
    if unknown:
        raise ApiError(400, f"models: there is no model {unknown[0][:LONGEST_TEXT]!r}", code=NOT_FOUND, param="models")
    return ids
