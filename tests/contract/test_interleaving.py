"""Two transactions at once: what one commits between two statements of the other is not lost, and not counted twice.

PostgreSQL's READ COMMITTED lets a transaction see, statement by statement, what others have committed meanwhile; a row
lock holds them off from there on. So for a pair of scripts every possible interleaving is played: the second runs whole
before each statement of the first, up to the first's lock on a row that the second needs. One transaction plays both, on every driver: what
the first sees is the same.
"""

import contextlib
import functools
import re

import pytest
from ledger import balanced
from scenario import (
    API,
    FINALIZER,
    LIMITS,
    POLICY,
    Owner,
    anyone,
    counts,
    failed,
    given_back,
    new_batch,
    owner,
    requests_for,
    stage,
    succeeded,
    to_retry,
)  # fmt: skip

from fibatchd.domain.requests import Failure
from fibatchd.errors import LeaseLost, StoreUnavailable
from fibatchd.store import accounts, admission, batches, claims, ending, leases, record, sweeps
from fibatchd.store.interface import Many, Query

_LOCKS_DAEMON = re.compile(r"FROM daemons\b.*\bFOR (UPDATE|KEY SHARE)", re.DOTALL)
_LOCKS_BATCH = re.compile(r"FROM batches\b.*\bFOR (UPDATE|SHARE)|FOR UPDATE OF b\b|^\s*UPDATE batches\b", re.DOTALL)


class Interleaved:
    """A script that runs `first` with all of `second` before its statement number `at`, counted from 0.

    `reached` is False where the first script ended before that statement, or locked what the second needs.
    """

    def __init__(self, first, second, at, locks=(_LOCKS_BATCH,)):
        self.first, self.second, self.at, self.locks = first, second, at, locks
        self.reached = False

    def __call__(self):
        first, rows, locked, self.reached = self.first(), None, False, False
        for index in range(1000):
            if index == self.at and not locked:
                self.reached = True
                yield from quietly(self.second())
            try:
                step = first.send(rows)
            except StopIteration as stop:
                return stop.value
            except (LeaseLost, StoreUnavailable):
                return None
            if isinstance(step, Query | Many):
                locked = locked or any(lock.search(step.sql) for lock in self.locks)
            rows = yield step
        raise AssertionError("the script does not end")


def quietly(script):
    with contextlib.suppress(LeaseLost):
        yield from script


class Scene:
    """A batch with requests queued, running and waiting for a retry, and everything that can happen to it."""

    def set_up(self, model):
        account = yield from accounts.create_account("ada", "internal")
        key, _ = yield from accounts.create_key(account.id)
        self.gone, self.worker = (yield from leases.register("gone")), (yield from leases.register("worker"))
        new, requests = new_batch(Owner(account, key), finalizer=FINALIZER), requests_for([model] * 4)
        reserved = yield from stage(new, "staging", requests)
        yield from admission.append(reserved, 0, requests)
        self.batch = yield from admission.publish(new, reserved, *counts(requests), LIMITS, POLICY, None)
        self.lane = reserved.lanes[model]
        claimed = yield from claims.claim(self.gone, [(self.lane, 3)], anyone)
        *self.running, waiting = claimed.requests
        yield from record.record([to_retry(waiting, 0.0)], POLICY)

    def mine(self):
        return self.batch.account_id, self.batch.id, API, POLICY

    def scripts(self):
        one, two = self.running
        return {
            "record": lambda: record.record([succeeded(one), to_retry(two)], POLICY),
            "record the rest": lambda: record.record([failed(one), given_back(two)], POLICY),
            "take over": lambda: leases.take_over(self.gone, 8, POLICY),
            "take over at the last attempt": lambda: leases.take_over(self.gone, 1, POLICY),
            "claim": lambda: claims.claim(self.worker, [(self.lane, 5)], anyone),
            "claim by the lost": lambda: claims.claim(self.gone, [(self.lane, 1)], anyone),
            "cancel": lambda: batches.cancel(*self.mine()),
            "delete": lambda: batches.delete(*self.mine()),
            "fail": lambda: ending.fail(self.batch.id, "owner_unauthorized", "gone", POLICY),
            "fail lane": lambda: sweeps.fail_lane(self.lane, Failure("model_not_found", "gone", 404), 5, POLICY),
        }


NAMES = [
    "record", "record the rest", "take over", "take over at the last attempt", "claim", "claim by the lost", "cancel",
    "delete", "fail", "fail lane",
]  # fmt: skip
NEED_THE_DAEMON = {"take over", "take over at the last attempt", "claim by the lost"}


@pytest.mark.parametrize("first", NAMES)
async def test_no_interleaving_breaks_the_books(store, first):
    for second in NAMES:
        locks = (_LOCKS_BATCH, _LOCKS_DAEMON) if second in NEED_THE_DAEMON else (_LOCKS_BATCH,)
        for at in range(100):
            scene = Scene()
            await store.write(scene.set_up, f"{second} {at}")
            scripts = scene.scripts()
            both = Interleaved(scripts[first], scripts[second], at, locks)
            await store.write(both)
            await balanced(store, max_attempts=8, about=f"{second} before statement {at} of {first}")
            if not both.reached:
                break
        assert at > 0, f"{first} and {second} never met"


async def test_a_batch_given_up_while_it_is_published_is_whole_or_absent(store):
    ada, published = await owner(store), []
    for at in range(100):
        new, requests = new_batch(ada), requests_for(["m", "m"])
        reserved = await store.write(stage, new, "staging", requests)
        await store.write(admission.append, reserved, 0, requests)
        publish = functools.partial(admission.publish, new, reserved, *counts(requests), LIMITS, POLICY, None)
        both = Interleaved(publish, functools.partial(admission.abandon, new.id), at)
        published.append(await store.write(both) is not None)
        await balanced(store)
        if not both.reached:
            break
    assert published == [False] * at + [True]
    assert at > 0, "the scripts never met"
