"""Whether a batch's requests may run now, judged anew before each attempt. Pure."""

from enum import Enum

from fibatchd.config import Config
from fibatchd.domain.accounts import ACTIVE, DELETED
from fibatchd.inference.catalogue import is_allowed, is_drained
from fibatchd.inference.entitlement import daily_quota, may_create_batches
from fibatchd.store.claims import Candidate


class Verdict(Enum):
    """RUN; wait for QUOTA (until midnight UTC), ACCESS (until the account has it again) or DRAIN (until the operator
    ends it); or end: OWNER (the batch fails) or MODEL (these requests fail)."""

    RUN = "run"
    QUOTA = "quota"
    ACCESS = "access"
    DRAIN = "drain"
    OWNER = "owner"
    MODEL = "model"


def judge(candidate: Candidate, config: Config, drained: frozenset[str], now: float) -> Verdict:
    """Judge one lane at the store's time `now`. `drained` are the models that the operator drains by the API."""
    account = candidate.account
    if owner_problem(candidate, now) is not None:
        return Verdict.OWNER
    if not is_allowed(config, account, candidate.key, candidate.model, candidate.endpoint):
        return Verdict.MODEL
    if not may_create_batches(config, account):
        return Verdict.ACCESS
    quota = daily_quota(config, account)
    if quota is not None and candidate.spent >= quota:
        return Verdict.QUOTA
    model = config.find_model(candidate.model)
    if model is not None and is_drained(model, drained):
        return Verdict.DRAIN
    return Verdict.RUN


def owner_problem(candidate: Candidate, now: float) -> str | None:
    """Return why the key or account that created the batch is no longer valid, None where it is."""
    account, key = candidate.account, candidate.key
    if account.status == DELETED:
        return "The account that created the batch was deleted"
    if account.status != ACTIVE:
        return "The account that created the batch is suspended"
    if key.is_revoked(now):
        return "The API key that created the batch was revoked"
    if key.is_expired(now):
        return "The API key that created the batch has expired"
    return None
