"""What operators ask the store: whether it answers at all, and how much is unfinished (open batches only, by indexes that
hold no others)."""

from dataclasses import dataclass

from fibatchd.store.interface import NOW, Query, Script


@dataclass(frozen=True, slots=True)
class Standing:
    """What is in the store now, over all daemons.

    batches  open batches, by status
    queued   requests that wait, by model
    running  requests of all models that are at an upstream
    oldest   by model, the age in seconds of the oldest batch that has requests waiting
    """

    batches: dict[str, int]
    queued: dict[str, int]
    running: int
    oldest: dict[str, float]


_BATCHES = """
SELECT status, COUNT(*), CAST(SUM(running) AS BIGINT) FROM batches
WHERE ended_at IS NULL AND deleted_at IS NULL AND status <> 'staging' GROUP BY status
"""
_LANES = """
SELECT l.model, CAST(SUM(l.queued) AS BIGINT), MIN(b.created_at) FROM lanes l JOIN batches b ON b.id = l.batch_id
WHERE l.queued > 0 GROUP BY l.model
"""


def answer() -> Script[None]:
    """Ask for nothing: that it answers is all that is to be known."""
    yield Query("SELECT 1")


def standing() -> Script[Standing]:
    """Count what is unfinished."""
    ((now,),) = yield NOW
    batches = yield Query(_BATCHES)
    lanes = yield Query(_LANES)
    return Standing(
        batches={status: count for status, count, _ in batches},
        queued={model: queued for model, queued, _ in lanes},
        running=sum(running for _, _, running in batches),
        oldest={model: max(0.0, now - created_at) for model, _, created_at in lanes},
    )
