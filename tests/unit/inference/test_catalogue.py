"""Which models a caller may use, under which names, on which endpoints."""

import pytest

from fibatchd.config import Config, Model, Upstream
from fibatchd.domain.accounts import ACTIVE, Account, Key
from fibatchd.inference import catalogue
from fibatchd.inference.endpoint import Problem

CHAT = "/v1/chat/completions"
EMBED = "/v1/embeddings"


def model(name, **more):
    return Model(id=name, upstreams=(Upstream(url="echo:", endpoints=(CHAT,), model=name),), **more)


CONFIG = Config(
    models=(
        model("glm", aliases=("fast",)),
        model("inner", tiers=("internal",)),
        model("embed", endpoints=(EMBED,)),
        model("old", drain=True),
    )
)
KEY = Key("key_1", "acct_1", "hyi-", 0, None, None, None)
LIMITED = Key("key_2", "acct_1", "hyi-", 0, None, None, ("inner", "old"))


def account(tier="pro"):
    return Account("acct_1", "ada", tier, ACTIVE, None, False, 0)


FOUND = [
    ("glm", CHAT, "pro", KEY, "glm"),
    ("fast", CHAT, "pro", KEY, "glm"),
    ("glm", CHAT, "pro", LIMITED, None),
    ("fast", CHAT, "pro", LIMITED, None),
    ("inner", CHAT, "internal", KEY, "inner"),
    ("inner", CHAT, "internal", LIMITED, "inner"),
    ("inner", CHAT, "pro", LIMITED, None),
    ("embed", EMBED, "pro", KEY, "embed"),
    ("embed", CHAT, "pro", KEY, None),
    ("glm", EMBED, "pro", KEY, None),
    ("old", CHAT, "pro", KEY, "old"),
    ("none", CHAT, "pro", KEY, None),
    ("", CHAT, "pro", KEY, None),
]


@pytest.mark.parametrize(("name", "endpoint", "tier", "key", "expected"), FOUND)
def test_find(name, endpoint, tier, key, expected):
    found = catalogue.find(CONFIG, account(tier), key, name, endpoint)
    if expected is None:
        assert found == Problem(f"Model '{name}' not found", "model", "model_not_found")
    else:
        assert found == CONFIG.find_model(expected)


@pytest.mark.parametrize(("name", "endpoint", "tier", "key", "expected"), FOUND)
def test_a_pinned_request_may_run_by_the_same_rules(name, endpoint, tier, key, expected):
    assert catalogue.is_allowed(CONFIG, account(tier), key, name, endpoint) == (expected == name)


def test_an_id_that_became_an_alias_is_gone():
    renamed = Config(models=(model("glm-2", aliases=("glm",)),))
    assert not catalogue.is_allowed(renamed, account(), KEY, "glm", CHAT)
    assert catalogue.find(renamed, account(), KEY, "glm", CHAT) == renamed.models[0]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("auto", "model_not_found"),
        ("auto-cheap", "model_not_found"),
        ("old", "model_unavailable"),
        ("fast", "model_unavailable"),
    ],
)
def test_what_a_batch_may_not_name(name, code):
    found = catalogue.resolve(CONFIG, account(), KEY, name, CHAT, {"glm"})
    assert isinstance(found, Problem)
    assert (found.param, found.code) == ("model", code)


def test_what_it_may():
    assert catalogue.resolve(CONFIG, account(), KEY, "fast", CHAT, {"old"}) == CONFIG.models[0]


def test_a_message_holds_what_a_database_can_hold():
    found = catalogue.find(CONFIG, account(), KEY, "\0\ud800" + "x" * 5000, CHAT)
    assert isinstance(found, Problem)
    assert len(found.message) < 250
    assert "\0" not in found.message.encode().decode()


def test_usable():
    assert [m.id for m in catalogue.usable(CONFIG, account(), KEY)] == ["glm", "embed", "old"]
    assert [m.id for m in catalogue.usable(CONFIG, account("internal"), LIMITED)] == ["inner", "old"]
