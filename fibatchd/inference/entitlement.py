"""What an account may do beside using models: create batches, spend so much a day, administer. Pure; the configuration and
the account's tier decide."""

from fibatchd.config import Config
from fibatchd.domain.accounts import Account, Key

ADMIN_TIER = "admin"


def may_create_batches(config: Config, account: Account) -> bool:
    """Whether the account's tier has access to batches."""
    return account.tier in config.batches.create_tiers


def daily_quota(config: Config, account: Account) -> int | None:
    """Return the account's daily quota in pico-USD, None for none: its own, else its tier's."""
    if account.quota_set:
        return account.quota
    tier = config.tiers.get(account.tier)
    return tier.daily_quota if tier else None


def is_admin(account: Account, key: Key) -> bool:
    """Whether a key may use the admin API: its account's tier says so, and the key is not limited to some models. By that API
    it could make one that is not."""
    return account.tier == ADMIN_TIER and key.models is None
