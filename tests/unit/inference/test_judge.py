"""Whether a batch may run, judged before every attempt."""

import dataclasses

import pytest

from fibatchd import config
from fibatchd.config import CHAT_COMPLETIONS
from fibatchd.domain.accounts import Account, Key
from fibatchd.inference.judge import Verdict, judge, owner_problem
from fibatchd.money import PICO
from fibatchd.store.claims import Candidate

NOW = 1000.0
ACCOUNT = Account("acct_1", "n", "pro", "active", None, False, 0.0)
KEY = Key("key_1", "acct_1", "hyi-12345678", 0.0, None, None, None)
CANDIDATE = Candidate(1, 10, "m", "batch_1", CHAT_COMPLETIONS, None, False, ACCOUNT, KEY, 0)
CONFIG = config.parse("""
    [batches]
    create_tiers = ["pro", "internal"]
    [tiers.pro]
    daily_quota_usd = "2.00"
    [[models]]
    id = "m"
    [[models.upstreams]]
    url = "http://x/v1"
    [[models]]
    id = "inner"
    tiers = ["internal"]
    [[models.upstreams]]
    url = "http://x/v1"
    [[models]]
    id = "drained"
    drain = true
    [[models.upstreams]]
    url = "http://x/v1"
""")


def verdict(candidate=CANDIDATE, *, account=None, key=None, drained=frozenset()):
    changed = dataclasses.replace(
        candidate,
        account=dataclasses.replace(ACCOUNT, **(account or {})),
        key=dataclasses.replace(KEY, **(key or {})),
    )
    return judge(changed, CONFIG, drained, NOW)


def test_a_batch_in_order_runs():
    assert verdict() is Verdict.RUN


@pytest.mark.parametrize(
    ("account", "key", "word"),
    [
        ({"status": "suspended"}, {}, "suspended"),
        ({"status": "deleted"}, {}, "deleted"),
        ({}, {"revoked_at": NOW}, "revoked"),
        ({}, {"expires_at": NOW}, "expired"),
    ],
)
def test_an_owner_that_is_no_longer_valid_ends_it(account, key, word):
    assert verdict(account=account, key=key) is Verdict.OWNER
    changed = dataclasses.replace(
        CANDIDATE, account=dataclasses.replace(ACCOUNT, **account), key=dataclasses.replace(KEY, **key)
    )
    assert word in (owner_problem(changed, NOW) or "")


def test_a_key_is_valid_until_its_last_moment():
    assert verdict(key={"expires_at": NOW + 0.001, "revoked_at": NOW + 0.001}) is Verdict.RUN


@pytest.mark.parametrize(
    ("spent", "account", "expected"),
    [
        (2 * PICO - 1, {}, Verdict.RUN),
        (2 * PICO, {}, Verdict.QUOTA),
        (2 * PICO, {"quota": 3 * PICO, "quota_set": True}, Verdict.RUN),
        (0, {"quota": 0, "quota_set": True}, Verdict.QUOTA),
        (10**20, {"quota": None, "quota_set": True}, Verdict.RUN),
    ],
)
def test_the_quota_pauses_it(spent, account, expected):
    assert verdict(dataclasses.replace(CANDIDATE, spent=spent), account=account) is expected


def test_without_access_it_waits():
    assert verdict(account={"tier": "free"}) is Verdict.ACCESS


@pytest.mark.parametrize("model", ["gone", "inner"])
def test_a_model_that_is_gone_or_no_longer_allowed_ends_its_requests(model):
    assert verdict(dataclasses.replace(CANDIDATE, model=model)) is Verdict.MODEL


def test_a_key_limited_to_other_models_ends_its_requests():
    assert verdict(key={"models": ("other",)}) is Verdict.MODEL
    assert verdict(key={"models": ("m",)}) is Verdict.RUN


def test_an_endpoint_that_the_model_no_longer_serves_ends_its_requests():
    assert verdict(dataclasses.replace(CANDIDATE, endpoint="/v1/embeddings")) is Verdict.MODEL


def test_a_drained_model_makes_it_wait():
    assert verdict(dataclasses.replace(CANDIDATE, model="drained")) is Verdict.DRAIN
    assert verdict(drained=frozenset({"m"})) is Verdict.DRAIN


def test_a_lost_owner_counts_more_than_anything_that_may_pass():
    assert verdict(dataclasses.replace(CANDIDATE, spent=10**20), account={"status": "suspended"}) is Verdict.OWNER
