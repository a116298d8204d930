"""What the command line and the admin API have in common: which names, tiers and models they take, and how they show
accounts and keys."""

from collections.abc import Iterable
from typing import Any

import msgspec

from fibatchd.config import Config
from fibatchd.domain.accounts import Account, Key
from fibatchd.inference.entitlement import daily_quota
from fibatchd.money import usd_text

LONGEST_TEXT = 200


def text_problem(text: str) -> str | None:
    """Return what is wrong with a name or an id: it is to be printable, and not empty. What is not UTF-8 would be refused by
    every store."""
    if not text.strip() or not text.isprintable():
        return "expected printable text that is not empty"
    return f"longer than {LONGEST_TEXT} characters" if len(text) > LONGEST_TEXT else None


def tier_problem(config: Config, tier: str) -> str | None:
    """Return that no tier has this name, None where one has."""
    if tier in config.tiers:
        return None
    return f"there is no tier {tier!r}; the configuration has {', '.join(config.tiers)}"


def pinned(config: Config, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the ids that models' names and aliases mean, each once, those that the configuration does not have as they
    are, and the latter by themselves."""
    found = {name: config.find_model(name) for name in names}
    ids = list(dict.fromkeys(model.id if model else name for name, model in found.items()))
    return ids, [name for name, model in found.items() if model is None]


def shown_account(account: Account, config: Config) -> dict[str, Any]:
    """Return an account as listings show it. The quota is the one that counts: the account's own, else its tier's."""
    quota = daily_quota(config, account)
    return {
        "id": account.id,
        "name": account.name,
        "tier": account.tier,
        "status": account.status,
        "daily_quota_usd": None if quota is None else msgspec.Raw(usd_text(quota).encode()),
        "created_at": int(account.created_at),
    }


def shown_key(key: Key) -> dict[str, Any]:
    """Return a key as listings show it."""
    return {
        "id": key.id,
        "account_id": key.account_id,
        "prefix": key.prefix,
        "created_at": int(key.created_at),
        "expires_at": None if key.expires_at is None else int(key.expires_at),
        "revoked_at": None if key.revoked_at is None else int(key.revoked_at),
        "models": key.models,
    }
