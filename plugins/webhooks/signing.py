"""Signatures as Standard Webhooks 1.0 has them: HMAC-SHA256 over id, time and body, with each secret that counts. Pure."""

import base64
import hashlib
import hmac
import secrets as random
from collections.abc import Sequence

import msgspec

PREFIX = "whsec_"
SECRET_BYTES = 24
ROTATED_S = 86400.0
"""A secret that was replaced still signs for this long, so that a receiver has time to change."""
MOST_ROTATED = 4
"""Replaced secrets that still sign: of more, the oldest are dropped."""


class Secret(msgspec.Struct, frozen=True, array_like=True):
    """One signing secret as its owner has it, `whsec_` and all. `until` is when it stops to sign (Unix seconds); None for
    the current one."""

    text: str
    until: float | None = None


Ring = tuple[Secret, ...]
"""The secrets of one webhook, the current one first."""


def new_secret() -> Secret:
    """Return a new secret: 24 random bytes in standard base64, which needs no padding."""
    return Secret(PREFIX + base64.b64encode(random.token_bytes(SECRET_BYTES)).decode())


def rotated(ring: Ring, fresh: Secret, now: float) -> Ring:
    """Return the ring with a new current secret; the one before stays for a while."""
    kept = [secret if secret.until is not None else Secret(secret.text, now + ROTATED_S) for secret in ring]
    return (fresh, *[secret for secret in kept if secret.until is not None and secret.until > now][:MOST_ROTATED])


def headers(ring: Ring, event_id: str, body: bytes, now: float) -> dict[str, str]:
    """Return the three headers of one attempt at the time `now`, which verifiers compare with their own clock."""
    timestamp = str(int(now))
    signed = b".".join([event_id.encode(), timestamp.encode(), body])
    valid = [secret for secret in ring if secret.until is None or secret.until > now]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(secret, signed) for secret in valid),
    }


def _signature(secret: Secret, signed: bytes) -> str:
    key = base64.b64decode(secret.text.removeprefix(PREFIX), validate=True)
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def encode_ring(ring: Sequence[Secret]) -> str:
    """Return a ring as the text that is stored."""
    return msgspec.json.encode(ring).decode()


def decode_ring(text: str) -> Ring:
    """Return the ring that `encode_ring` wrote."""
    return msgspec.json.decode(text, type=tuple[Secret, ...])
