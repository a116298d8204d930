"""Scripts on sessions: begin, find, keep, end. The store has a hash of a session's token, never the token."""

import hashlib
import secrets
from dataclasses import dataclass

from fibatchd.plugin_api import NOW, Key, Query, Script, one

TOUCH_S = 60.0
TOUCH_SHARE = 0.25
"""A session's last use is known no better than to TOUCH_S, or this share of the time it may be idle, so that a page that
polls does not write."""
MOST_OF_A_KEY = 50
"""Sessions of one key; a new one ends the oldest."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session that goes on: the key that began it, and whether its last use is to be noted again."""

    key_id: str
    is_stale: bool


def new_token() -> str:
    """Return what the cookie holds: 32 random bytes in URL-safe base64."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token, in hex. A 256-bit random token needs no salt and no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


def begin(digest: str, key: Key, max_s: float, *, instead_of: str | None) -> Script[None]:
    """Store a new session of a key, which ends `max_s` seconds from now at the latest; the one that the same browser had
    ends."""
    ((now,),) = yield NOW
    if instead_of is not None:
        yield from end(instead_of)
    yield Query(
        "INSERT INTO console_sessions (token_hash, key_id, created_at, used_at, expires_at) VALUES (?, ?, ?, ?, ?)",
        (digest, key.id, now, now, now + max_s),
    )
    yield Query(
        "DELETE FROM console_sessions WHERE token_hash IN (SELECT token_hash FROM console_sessions WHERE key_id = ? "
        "ORDER BY created_at DESC, token_hash LIMIT 1000 OFFSET ?)",
        (key.id, MOST_OF_A_KEY),
    )


def find(digest: str, idle_s: float) -> Script[Session | None]:
    """Return the session with this hash; None where there is none, or where it is over."""
    ((now,),) = yield NOW
    row = one(
        (
            yield Query(
                "SELECT key_id, used_at FROM console_sessions WHERE token_hash = ? AND expires_at > ? AND used_at > ?",
                (digest, now, now - idle_s),
            )
        )
    )
    return Session(row[0], now - row[1] >= min(TOUCH_S, TOUCH_SHARE * idle_s)) if row else None


def touch(digest: str) -> Script[None]:
    """Note that a session is in use."""
    ((now,),) = yield NOW
    yield Query("UPDATE console_sessions SET used_at = ? WHERE token_hash = ?", (now, digest))


def end(digest: str) -> Script[None]:
    """End a session, if it is there."""
    yield Query("DELETE FROM console_sessions WHERE token_hash = ?", (digest,))


_OVER = """
DELETE FROM console_sessions WHERE expires_at <= ? OR used_at <= ? OR NOT EXISTS (
    SELECT 1 FROM keys k JOIN accounts a ON a.id = k.account_id
    WHERE k.id = console_sessions.key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > ?)
    AND a.status = 'active')
RETURNING 1
"""


def sweep(idle_s: float) -> Script[int]:
    """End all sessions whose time is over, or whose key or account is not valid any more, for good. Return how many."""
    ((now,),) = yield NOW
    return len((yield Query(_OVER, (now, now - idle_s, now))))
