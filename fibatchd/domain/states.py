"""The states of batches and requests, and the one table of how a batch may move.

    validating ──> in_progress ──> finalizing ──> completed | failed | expired
        │               │
        └───────────────┴──> cancelling ──> cancelled

`finalizing` is passed only by batches that write result files. A batch ends directly from any open state when
nothing of it runs.

A request is stored as queued, running, completed or failed. Those that never ran stay `queued`; the batch's `closed_as`
says what they ended as, so that closing a batch of 50,000 requests is one update of one row.
"""

from typing import Final

STAGING: Final = "staging"  # being stored; no reader sees it
VALIDATING: Final = "validating"
IN_PROGRESS: Final = "in_progress"
FINALIZING: Final = "finalizing"
CANCELLING: Final = "cancelling"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
EXPIRED: Final = "expired"
CANCELLED: Final = "cancelled"

FINAL = frozenset({COMPLETED, FAILED, EXPIRED, CANCELLED})
UNFINISHED = frozenset({VALIDATING, IN_PROGRESS, FINALIZING, CANCELLING})
CLAIMABLE = frozenset({VALIDATING, IN_PROGRESS})

TRANSITIONS: dict[str, frozenset[str]] = {
    STAGING: frozenset({VALIDATING}),
    VALIDATING: frozenset({IN_PROGRESS, FINALIZING, CANCELLING, COMPLETED, FAILED, EXPIRED, CANCELLED}),
    IN_PROGRESS: frozenset({FINALIZING, CANCELLING, COMPLETED, FAILED, EXPIRED, CANCELLED}),
    FINALIZING: frozenset({COMPLETED, FAILED, EXPIRED}),
    CANCELLING: frozenset({CANCELLED}),
    **{status: frozenset() for status in FINAL},
}


def final_status(*, cancelled: bool, owner_invalid: bool, expired: bool) -> str:
    """Return the status in which a batch ends, all its requests being over."""
    if cancelled:
        return CANCELLED
    if owner_invalid:
        return FAILED
    return EXPIRED if expired else COMPLETED
