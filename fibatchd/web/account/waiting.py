"""Why nothing of a batch runs at the moment. Pure; it decides as the scheduler does, from what this daemon knows."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, auto

from fibatchd.config import Config
from fibatchd.context import Context
from fibatchd.domain import states
from fibatchd.domain.batches import Batch
from fibatchd.inference.judge import Verdict, judge
from fibatchd.inference.load import room_for
from fibatchd.store.overview import Waiting
from fibatchd.store.spending import seconds_to_midnight
from fibatchd.upstream.balance import Replica, all_out, may_start


class Reason(IntEnum):
    """What a batch waits for; the larger, the nearer its requests are to running."""

    VALIDATING = auto()
    FINALIZING = auto()
    QUOTA = auto()
    ACCESS = auto()
    DRAINED = auto()
    MODEL_DOWN = auto()
    PAUSED = auto()
    INTERACTIVE = auto()
    RETRY = auto()
    TURN = auto()


_OF_VERDICTS = {Verdict.ACCESS: Reason.ACCESS, Verdict.DRAIN: Reason.DRAINED}


@dataclass(frozen=True, slots=True)
class Wait:
    """A reason, and by when it is over: Unix seconds, None where nobody can know."""

    reason: Reason
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides, as of one moment: `now` by the store's clock, `trio_now` by trio's."""

    context: Context
    now: float
    trio_now: float

    @property
    def config(self) -> Config:
        """Return the configuration."""
        return self.context.config


def wait_of(batch: Batch, lanes: Sequence[Waiting], around: Surroundings) -> Wait | None:
    """Return why a batch waits, None where it does not. `lanes` are those that have requests waiting."""
    if batch.is_final or batch.running:
        return None
    if batch.status == states.FINALIZING or (batch.status == states.CANCELLING and not batch.queued):
        return Wait(Reason.FINALIZING)
    if not batch.prepared:
        return Wait(Reason.VALIDATING)
    found = [wait for lane in lanes if (wait := _wait_of_lane(lane, around)) is not None]
    return max(found, key=lambda wait: wait.reason, default=None)


def _wait_of_lane(lane: Waiting, around: Surroundings) -> Wait | None:
    """Return why a lane waits; None where its requests are about to fail, which is no waiting."""
    candidate = lane.candidate
    verdict = judge(candidate, around.config, around.context.drained, around.now)
    if verdict is Verdict.QUOTA:
        return Wait(Reason.QUOTA, around.now + seconds_to_midnight(around.now))
    if verdict is not Verdict.RUN:
        reason = _OF_VERDICTS.get(verdict)
        return None if reason is None else Wait(reason)
    replicas = [member.replica for member in around.context.executor.fleet.of(candidate.model)]
    held_up = _wait_for_upstreams(replicas, around)
    if held_up is not None:
        return held_up
    if _yields(candidate.model, around):
        return Wait(Reason.INTERACTIVE)
    return Wait(Reason.RETRY, lane.due_at) if lane.due_at > around.now else Wait(Reason.TURN)


def _wait_for_upstreams(replicas: Sequence[Replica], around: Surroundings) -> Wait | None:
    if all_out(replicas):
        return Wait(Reason.MODEL_DOWN)
    startable, again = may_start(replicas, around.trio_now)
    return None if startable else Wait(Reason.PAUSED, around.now + again - around.trio_now)


def _yields(model_id: str, around: Surroundings) -> bool:
    model = around.config.find_model(model_id)
    return model is not None and room_for(model, around.context.load.interactive(model_id)) <= 0
