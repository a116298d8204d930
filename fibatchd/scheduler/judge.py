"""Whether a batch's requests may run now, judged anew before each attempt. Pure."""

from enum import Enum

from fibatchd.config import Config
from fibatchd.domain.accounts import ACTIVE, DELETED
from fibatchd.inference.catalogue import is_allowed
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
    if account.tier not in config.batches.create_tiers:
        return Verdict.ACCESS
    tier = config.tiers.get(account.tier)
    quota = account.quota if account.quota_set else tier.daily_quota if tier else None
    if quota is not None and candidate.spent >= quota:
        return Verdict.QUOTA
    model = config.find_model(candidate.model)
    if candidate.model in drained or (model is not None and model.drain):
        return Verdict.DRAIN
    return Verdict.RUN


def owner_problem(candidate: Candidate, now: float) -> str | None:
    """Return why the key or account that created the batch is no longer valid, None where it is."""
    account, key = candidate.account, candidate.key
    if account.status == DELETED:
        return "The account that created the batch was deleted"
    if account.status != ACTIVE:
        return "The account that created the batch is suspended"
    if key.revoked_at is not None and key.revoked_at <= now:
        return "The API key that created the batch was revoked"
    if key.expires_at is not None and key.expires_at <= now:
        return "The API key that created the batch has expired"
    return None
