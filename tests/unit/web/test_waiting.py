"""Why a batch waits, and when it may end: decided from plain values."""

import math
from dataclasses import dataclass, field, fields
from types import SimpleNamespace

import pytest

from fibatchd import config
from fibatchd.domain.accounts import Account, Key
from fibatchd.domain.batches import Batch
from fibatchd.inference.load import Load
from fibatchd.store.claims import Candidate
from fibatchd.store.overview import Waiting
from fibatchd.upstream.balance import Replica
from fibatchd.web.account.progress import forecast, width_of
from fibatchd.web.account.waiting import Reason, Surroundings, Wait, wait_of

NOW = 1_795_000_000.0  # 09:46:40 UTC
MIDNIGHT = 1_795_046_400.0
CONFIG = config.parse("""
[tiers.free]
daily_quota_usd = "1"
[batches]
create_tiers = ["free"]
[[models]]
id = "m"
capacity = 4
reserve = 1
upstreams = [{ url = "http://a/v1" }, { url = "http://b/v1" }]
[[models]]
id = "off"
drain = true
upstreams = [{ url = "http://c/v1" }]
""")


@dataclass
class World:
    """One account's lane of model m, and what surrounds it."""

    load: Load = field(default_factory=Load)
    drained: frozenset = frozenset()
    tier: str = "free"
    spent: int = 0
    due_at: float = 0.0
    replicas: list = field(default_factory=lambda: [Replica(up) for up in CONFIG.models[0].upstreams])

    def lane(self, model="m"):
        account = Account("acct_1", "ada", self.tier, "active", None, False, 0.0)
        key = Key("key_1", "acct_1", "hyi-", 0.0, None, None, None)
        candidate = Candidate(1, 5, model, "batch_1", config.CHAT_COMPLETIONS, None, True, account, key, self.spent)
        return Waiting(candidate, self.due_at)

    def wait(self, *models, batch=None):
        members = [SimpleNamespace(replica=replica) for replica in self.replicas]
        fleet = SimpleNamespace(of=lambda _model: members)
        context = SimpleNamespace(
            config=CONFIG, drained=self.drained, load=self.load, executor=SimpleNamespace(fleet=fleet)
        )
        lanes = [self.lane(model) for model in models or ("m",)]
        return wait_of(batch or a_batch(), lanes, Surroundings(context, NOW, 100.0))


def a_batch(**changes):
    empty = dict.fromkeys(part.name for part in fields(Batch))
    counts = dict.fromkeys(("total", "queued", "running", "completed", "failed", "cancelled", "expired"), 0)
    base = empty | counts | {"status": "in_progress", "prepared": True, "queued": 5, "in_progress_at": NOW - 100}
    return Batch(**(base | {"created_at": NOW - 200, "expires_at": NOW + 1000} | changes))


def test_its_turn_is_what_is_left():
    assert World().wait() == Wait(Reason.TURN)


@pytest.mark.parametrize(
    "changes",
    [{"running": 1}, {"status": "completed", "queued": 0}, {"status": "cancelled", "queued": 0}],
    ids=["runs", "completed", "cancelled"],
)
def test_what_runs_or_has_ended_does_not_wait(changes):
    assert World().wait(batch=a_batch(**changes)) is None


def test_states_of_their_own():
    assert World().wait(batch=a_batch(status="validating", prepared=False, queued=0)) == Wait(Reason.VALIDATING)
    assert World().wait(batch=a_batch(status="finalizing", queued=0)) == Wait(Reason.FINALIZING)
    assert World().wait(batch=a_batch(status="cancelling", queued=0)) == Wait(Reason.FINALIZING)


def test_quota_access_and_drain():
    assert World(spent=10**12).wait() == Wait(Reason.QUOTA, MIDNIGHT)
    assert World(tier="pro").wait() == Wait(Reason.ACCESS)
    assert World(drained=frozenset({"m"})).wait() == Wait(Reason.DRAINED)
    assert World().wait("off") == Wait(Reason.DRAINED)


def test_upstreams_that_are_out_or_want_to_be_left_alone():
    world = World()
    for replica in world.replicas:
        replica.failed(100.0, at_once=True)
    assert world.wait() == Wait(Reason.MODEL_DOWN)
    world = World()
    for replica, until in zip(world.replicas, (130.0, 120.0), strict=True):
        replica.pause(until)
    assert world.wait() == Wait(Reason.PAUSED, NOW + 20)


def test_yielding_and_retries():
    world = World(due_at=NOW + 7)
    assert world.wait() == Wait(Reason.RETRY, NOW + 7)
    with world.load.enter("m"), world.load.enter("m"):
        assert world.wait() == Wait(Reason.RETRY, NOW + 7)
        with world.load.enter("m"):
            assert world.wait() == Wait(Reason.INTERACTIVE)


def test_of_several_models_the_one_nearest_to_running_is_told():
    assert World().wait("off", "m") == Wait(Reason.TURN)


def test_a_lane_that_is_about_to_fail_does_not_wait():
    assert World().wait("gone") is None


# Forecast


@pytest.mark.parametrize(
    ("whole", "most", "width"),
    [
        (0, 60, 1),
        (59.9, 60, 1),
        (60, 60, 2),
        (3600, 60, 120),
        (3599, 60, 60),
        (86_400, 1, 2 * 86_400),
        (10**6, 2, 518_400),
    ],
)
def test_widths_are_round_and_cover_the_whole(whole, most, width):
    assert width_of(whole, most) == width
    assert math.floor(whole / width) + 1 <= most


def test_the_rate_of_late_goes_on():
    batch = a_batch(queued=90, running=10)
    assert forecast(batch, 50, NOW) == {"ends_at": NOW + 200, "in_time": True, "per_minute": 30.0, "basis_s": 100}
    assert forecast(batch, 5, NOW)["in_time"] is False


def test_what_cannot_be_known_is_not_told():
    assert forecast(a_batch(), 2, NOW) is None
    assert forecast(a_batch(queued=0), 50, NOW) is None
    assert forecast(a_batch(in_progress_at=None), 50, NOW) is None
    assert forecast(a_batch(in_progress_at=NOW - 5), 50, NOW) is None
    assert forecast(a_batch(status="completed"), 50, NOW) is None
