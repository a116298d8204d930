"""Scripts on accounts and keys: what the command line, the admin API and every authenticated call need."""

from collections.abc import Iterable

import msgspec

from fibatchd.domain.accounts import ACTIVE, DELETED, Account, Key, new_secret, secret_hash
from fibatchd.ids import new_id
from fibatchd.store.interface import NOW, Notify, Query, Row, Script, one

_ACCOUNT = "a.id, a.name, a.tier, a.status, a.quota, a.quota_set, a.created_at"
CHANNEL = "owners"
"""Tells the id of an account whose rights, or those of one of its keys, have changed."""

_KEY = "k.id, k.account_id, k.prefix, k.created_at, k.expires_at, k.revoked_at, k.models"
ACCOUNT_WIDTH = 7


def account_from(row: Row) -> Account:
    """Build an Account from the columns of `_ACCOUNT`."""
    id_, name, tier, status, quota, quota_set, created_at = row
    return Account(id_, name, tier, status, quota, bool(quota_set), created_at)


def key_from(row: Row) -> Key:
    """Build a Key from the columns of `_KEY`."""
    id_, account_id, prefix, created_at, expires_at, revoked_at, models = row
    limited = tuple(msgspec.json.decode(models, type=list[str])) if models is not None else None
    return Key(id_, account_id, prefix, created_at, expires_at, revoked_at, limited)


def create_account(name: str, tier: str) -> Script[Account]:
    """Store a new active account."""
    ((now,),) = yield NOW
    account = Account(new_id("acct_"), name, tier, ACTIVE, None, False, now)
    yield Query(
        "INSERT INTO accounts (id, name, tier, status, created_at) VALUES (?, ?, ?, ?, ?)",
        (account.id, name, tier, ACTIVE, now),
    )
    return account


def get_account(account_id: str) -> Script[Account | None]:
    """Return the account, None where there is none of that id."""
    row = one((yield Query(f"SELECT {_ACCOUNT} FROM accounts a WHERE a.id = ?", (account_id,))))
    return account_from(row) if row else None


def get_key(key_id: str) -> Script[Key | None]:
    """Return the key, whatever its state; None where there is none of that id."""
    row = one((yield Query(f"SELECT {_KEY} FROM keys k WHERE k.id = ?", (key_id,))))
    return key_from(row) if row else None


def hold(account_id: str) -> Script[None]:
    """Hold an account against others that hold it, until the transaction ends: what is counted of it then stays true."""
    yield Query("SELECT 1 FROM accounts WHERE id = ? FOR NO KEY UPDATE", (account_id,))


def list_accounts() -> Script[list[Account]]:
    """Return all accounts, oldest first, deleted ones included."""
    rows = yield Query(f"SELECT {_ACCOUNT} FROM accounts a ORDER BY a.id")
    return [account_from(row) for row in rows]


def set_account_status(account_id: str, status: str) -> Script[bool]:
    """Suspend or resume an account. False where there is none, or where it was deleted."""
    rows = yield Query(
        "UPDATE accounts SET status = ? WHERE id = ? AND status <> ? RETURNING id", (status, account_id, DELETED)
    )
    yield Notify(CHANNEL, account_id)
    return bool(rows)


def delete_account(account_id: str) -> Script[bool]:
    """Mark an account deleted, forget its name and revoke its keys; its batches are ended and purged by the sweeps."""
    ((now,),) = yield NOW
    rows = yield Query(
        "UPDATE accounts SET status = ?, name = '' WHERE id = ? AND status <> ? RETURNING id",
        (DELETED, account_id, DELETED),
    )
    yield Query("UPDATE keys SET revoked_at = ? WHERE account_id = ? AND revoked_at IS NULL", (now, account_id))
    yield Notify(CHANNEL, account_id)
    return bool(rows)


def set_account_tier(account_id: str, tier: str) -> Script[bool]:
    """Move an account to another tier. False where there is no such account."""
    rows = yield Query(
        "UPDATE accounts SET tier = ? WHERE id = ? AND status <> ? RETURNING id", (tier, account_id, DELETED)
    )
    yield Notify(CHANNEL, account_id)
    return bool(rows)


def set_account_quota(account_id: str, quota: int | None) -> Script[bool]:
    """Give an account a daily quota of its own in pico-USD, or None for none. False where there is no such account."""
    rows = yield Query(
        "UPDATE accounts SET quota = ?, quota_set = 1 WHERE id = ? AND status <> ? RETURNING id",
        (quota, account_id, DELETED),
    )
    yield Notify(CHANNEL, account_id)
    return bool(rows)


def create_key(
    account_id: str, *, expires_in: float | None = None, models: Iterable[str] | None = None
) -> Script[tuple[Key, str] | None]:
    """Store a new key and return it with its secret, which is kept nowhere. None where there is no such account."""
    row = one((yield Query("SELECT status FROM accounts WHERE id = ? FOR SHARE", (account_id,))))
    if row is None or row[0] == DELETED:
        return None
    ((now,),) = yield NOW
    secret = new_secret()
    expires_at = now + expires_in if expires_in is not None else None
    limited = tuple(models) if models is not None else None
    key = Key(new_id("key_"), account_id, secret[:12], now, expires_at, None, limited)
    yield Query(
        "INSERT INTO keys (id, account_id, hash, prefix, models, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            key.id,
            account_id,
            secret_hash(secret),
            key.prefix,
            msgspec.json.encode(limited).decode() if limited is not None else None,
            now,
            expires_at,
        ),
    )
    return key, secret


def list_keys(account_id: str) -> Script[list[Key]]:
    """Return an account's keys, oldest first, revoked and expired ones included."""
    rows = yield Query(f"SELECT {_KEY} FROM keys k WHERE k.account_id = ? ORDER BY k.id", (account_id,))
    return [key_from(row) for row in rows]


def revoke_key(key_id: str) -> Script[bool]:
    """Revoke a key from now on; a key revoked before keeps its time. False where there is no such key."""
    ((now,),) = yield NOW
    sql = "UPDATE keys SET revoked_at = COALESCE(revoked_at, ?) WHERE id = ? RETURNING account_id"
    rows = yield Query(sql, (now, key_id))
    for (account_id,) in rows:
        yield Notify(CHANNEL, account_id)
    return bool(rows)


def authenticate(digest: bytes) -> Script[tuple[Account, Key, float] | None]:
    """Return the account and key of a secret's hash, whatever their state, and the store's time; None if unknown."""
    return (yield from _owner("k.hash = ?", digest))


def owner_of(key_id: str) -> Script[tuple[Account, Key, float] | None]:
    """Return the account and key of a key's id, whatever their state, and the store's time; None if unknown."""
    return (yield from _owner("k.id = ?", key_id))


def _owner(condition: str, value: bytes | str) -> Script[tuple[Account, Key, float] | None]:
    sql = f"SELECT {_ACCOUNT}, {_KEY} FROM keys k JOIN accounts a ON a.id = k.account_id WHERE {condition}"
    row = one((yield Query(sql, (value,))))
    if row is None:
        return None
    ((now,),) = yield NOW
    return account_from(row[:ACCOUNT_WIDTH]), key_from(row[ACCOUNT_WIDTH:]), now
