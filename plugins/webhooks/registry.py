"""Scripts on webhooks: an account's one endpoint, its secrets, and whether it is disabled."""

from collections.abc import Mapping
from dataclasses import dataclass

from fibatchd.plugin_api import NOW, Many, Query, Row, Script, one

from .signing import Ring, decode_ring, encode_ring, new_secret, rotated

COLUMNS = "account_id, url, secrets, created_at, updated_at, disabled_at, disabled_reason, failing"


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where an account's events go. Times are Unix seconds.

    disabled_at  set while nothing is delivered
    failing      whether its last delivery failed
    """

    account_id: str
    url: str
    ring: Ring
    created_at: float
    updated_at: float
    disabled_at: float | None
    disabled_reason: str | None
    failing: bool


def webhook_from(row: Row) -> Webhook:
    """Build a Webhook from the columns of COLUMNS."""
    account_id, url, secrets, created_at, updated_at, disabled_at, disabled_reason, failing = row
    ring = decode_ring(secrets)
    return Webhook(account_id, url, ring, created_at, updated_at, disabled_at, disabled_reason, bool(failing))


def get(account_id: str) -> Script[Webhook | None]:
    """Return an account's webhook, None where it has none."""
    row = one((yield Query(f"SELECT {COLUMNS} FROM webhooks WHERE account_id = ?", (account_id,))))
    return webhook_from(row) if row else None


def put(account_id: str, url: str, *, rotate: bool) -> Script[tuple[Webhook, str | None]]:
    """Set an account's webhook, or change it; one that was disabled is enabled.

    Returns it, and its secret where that is new: for a new webhook, and with `rotate`.
    """
    ((now,),) = yield NOW
    fresh = new_secret()
    # Inserted first: of two calls at once the second waits here, and then finds the first one's secret.
    made = yield Query(
        "INSERT INTO webhooks (account_id, url, secrets, created_at, updated_at) VALUES (?, ?, ?, ?, ?) "
        f"ON CONFLICT (account_id) DO NOTHING RETURNING {COLUMNS}",
        (account_id, url, encode_ring([fresh]), now, now),
    )
    if made:
        return webhook_from(made[0]), fresh.text
    ((secrets,),) = yield Query("SELECT secrets FROM webhooks WHERE account_id = ? FOR UPDATE", (account_id,))
    ring = rotated(decode_ring(secrets), fresh, now) if rotate else decode_ring(secrets)
    ((*row,),) = yield Query(
        "UPDATE webhooks SET url = ?, secrets = ?, updated_at = ?, disabled_at = NULL, disabled_reason = NULL, failing = 0 "
        f"WHERE account_id = ? RETURNING {COLUMNS}",
        (url, encode_ring(ring), now, account_id),
    )
    return webhook_from(tuple(row)), fresh.text if rotate else None


def delete(account_id: str) -> Script[bool]:
    """Remove an account's webhook with its secrets, and abandon what is still to be delivered. False where it has none."""
    gone = yield Query("DELETE FROM webhooks WHERE account_id = ? RETURNING account_id", (account_id,))
    yield from abandon_pending(account_id)
    return bool(gone)


def disable(webhook: Webhook, reason: str) -> Script[None]:
    """Disable a webhook, and abandon what is still to be delivered, unless its URL is another by now."""
    ((now,),) = yield NOW
    disabled = yield Query(
        "UPDATE webhooks SET disabled_at = ?, disabled_reason = ? WHERE account_id = ? AND url = ? "
        "AND disabled_at IS NULL RETURNING account_id",
        (now, reason, webhook.account_id, webhook.url),
    )
    if disabled:
        yield from abandon_pending(webhook.account_id)


def note_outcomes(failing: Mapping[Webhook, bool]) -> Script[None]:
    """Note of webhooks whether their last delivery failed, of those aside whose URL is another by now."""
    ordered = sorted((webhook.account_id, webhook.url, int(failed)) for webhook, failed in failing.items())
    yield Many(
        "UPDATE webhooks SET failing = ? WHERE account_id = ? AND url = ?",
        [(failed, account_id, url) for account_id, url, failed in ordered],
    )


def abandon_pending(account_id: str) -> Script[None]:
    """Give up all of an account's events that wait for delivery. What is on its way at the moment is recorded by whoever
    delivers it, and given up after that if it failed."""
    yield Query(
        "UPDATE webhook_events SET status = 'abandoned', due_at = NULL "
        "WHERE account_id = ? AND due_at IS NOT NULL AND lease IS NULL",
        (account_id,),
    )
