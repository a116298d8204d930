"""Accounts and their API keys."""

import hashlib
import re
import secrets
from dataclasses import dataclass

ACTIVE = "active"
SUSPENDED = "suspended"
DELETED = "deleted"

_KEY = re.compile(r"hyi-[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns keys, batches and files, and whose quota is spent. `quota` is pico-USD a UTC day, where it overrides the
    tier's; `quota_set` tells an override to "none" from no override."""

    id: str
    name: str
    tier: str
    status: str
    quota: int | None
    quota_set: bool
    created_at: float


@dataclass(frozen=True, slots=True)
class Key:
    """An API key without its secret. `models` limits it to some models; None is all that the account may use."""

    id: str
    account_id: str
    prefix: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    models: tuple[str, ...] | None

    def is_revoked(self, now: float) -> bool:
        """Whether it is revoked at the store's time `now`."""
        return self.revoked_at is not None and self.revoked_at <= now

    def is_expired(self, now: float) -> bool:
        """Whether its time is over at the store's time `now`."""
        return self.expires_at is not None and self.expires_at <= now


def new_secret() -> str:
    """Return a new key as its owner sees it, once: `hyi-` + 32 random bytes in URL-safe base64, 43 characters."""
    return "hyi-" + secrets.token_urlsafe(32)


def secret_hash(secret: str) -> bytes:
    """Return the SHA-256 under which a key is stored. A 256-bit random secret needs no salt and no slow hash. Whatever a
    client sends has one, lone surrogates included."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


def looks_like_key(secret: str) -> bool:
    """Whether the text has a key's form; what has not is refused without asking the store."""
    return _KEY.fullmatch(secret) is not None
