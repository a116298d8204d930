"""The record of what administrators change: one structured line in the log each, with ids only."""

import structlog

from fibatchd.web.auth import caller

log = structlog.get_logger(__name__)


def note(action: str, **target: str | int | None) -> None:
    """Note that the caller of the current request has changed something. `target` is ids and names of the configuration,
    never a secret."""
    who = caller()
    log.info("admin action", account=who.account.id, key_id=who.key.id, action=action, **target)
