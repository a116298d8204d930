"""Random lives of batches, step by step beside the model, on whatever store the test is run with.

Hypothesis drives the machine in a thread; each step runs in the test's own trio loop. After each step the books are
audited, and every batch is compared with what the model says of it.
"""

import functools

import hypothesis
import hypothesis.strategies as st
import model as modelled
import pytest
import trio
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from ledger import balanced
from model import MAX_ATTEMPTS, Request
from scenario import (
    POLICY,
    cancel,
    claim,
    create,
    daemon,
    delete,
    failed,
    finalize_all,
    given_back,
    owner,
    pass_time,
    prepare,
    purge_all,
    report,
    succeeded,
    sweep,
    take_over,
    to_retry,
    upload,
)  # fmt: skip

from fibatchd.domain import states
from fibatchd.store import accounts, batches, claims
from fibatchd.store.admission import Limits
from fibatchd.store.interface import Query

NO_LIMITS = Limits(batches=1000, requests=1000)
MODELS = st.lists(st.sampled_from("ab"), min_size=1, max_size=5)
WINDOWS = st.sampled_from([100.0, 1000.0])
KINDS = st.sampled_from(["success", "success at unknown cost", "failure", "retry", "retry at once", "give back"])


def wipe():
    """Empty the store, for the next example."""
    for table in (
        "results", "request_bodies", "requests", "lanes", "jobs", "idempotency", "spending", "places", "daemons", "batches",
        "keys", "accounts",
    ):  # fmt: skip
        yield Query(f"DELETE FROM {table}")


class Lives(RuleBasedStateMachine):
    """The store on one side, the model on the other."""

    def __init__(self, store, clock):
        super().__init__()
        self.store, self.clock = store, clock
        self.lives: list[modelled.Batch] = []
        self.claimed = []  # (Claimed, Batch, Request): all that was taken, also what others have taken over since
        self.books: dict[str, list[int]] = {}
        self.revoked: set[str] = set()

    def do(self, action, *args, **how):
        return trio.from_thread.run(functools.partial(action, self.store, *args, **how))

    def write(self, script, *args):
        return trio.from_thread.run(self.store.write, script, *args)

    def read(self, script, *args):
        return trio.from_thread.run(self.store.read, script, *args)

    def batch(self, data):
        return data.draw(st.sampled_from(self.lives))

    def book(self, batch, cost):
        line = self.books.setdefault(batch.owner.account.id, [0, 0, 0])
        line[0] += 1
        line[1] += cost or 0
        line[2] += cost is None
        batch.cost += cost or 0
        batch.unknown += cost is None

    @initialize()
    def begin(self):
        self.write(wipe)
        self.owners = [self.do(owner, "ada"), self.do(owner, "eve")]
        self.daemons = [self.do(daemon, "one"), self.do(daemon, "two")]
        self.create(0, ["a", "b", "a"], 0, 1000.0)
        self.upload(1, ["a", "a"], 1000.0)
        self.open(self.lives[-1])

    @rule(who=st.integers(0, 1), models=MODELS, refused=st.integers(0, 5), window_s=WINDOWS)
    def create(self, who, models, refused, window_s):
        made = self.do(create, self.owners[who], models, refused=refused, window_s=window_s, limits=NO_LIMITS)
        requests = [Request(model, "failed" if index < refused else "queued") for index, model in enumerate(models)]
        self.lives.append(
            modelled.Batch(
                made.id, self.owners[who], made.first_number, self.clock.now + window_s, requests, False, True
            )
        )
        self.lives[-1].settle(self.clock.now)

    @rule(who=st.integers(0, 1), models=MODELS, window_s=WINDOWS)
    def upload(self, who, models, window_s):
        reserved = self.do(upload, self.owners[who], models, window_s=window_s)
        requests = [Request(model) for model in models]
        batch = modelled.Batch(
            reserved.batch_id, self.owners[who], reserved.first, self.clock.now + window_s, requests, True, False
        )
        batch.reserved = reserved
        self.lives.append(batch)

    @precondition(lambda self: any(b.reserved and not b.prepared for b in self.lives))
    @rule(data=st.data())
    def prepare(self, data):
        self.open(data.draw(st.sampled_from([b for b in self.lives if b.reserved and not b.prepared])))

    def open(self, batch):
        opened = self.do(prepare, batch.reserved, [r.model for r in batch.requests])
        assert opened == (batch.closed_as is None and not batch.deleted)
        batch.prepared = opened

    @rule(who=st.integers(0, 1), model=st.sampled_from("ab"), count=st.integers(1, 3))
    def claim(self, who, model, count):
        now = self.clock.now
        found, _ = self.read(claims.candidates, model)
        waiting = [
            b
            for b in self.lives
            if b.open_at(now) and any(r.model == model and r.status == "queued" for r in b.requests)
        ]
        assert [c.batch_id for c in found] == [b.id for b in waiting]
        taken = self.do(claim, self.daemons[who], model, count, lambda c, _: c.key.revoked_at is None)
        for batch in waiting:
            mine = [c for c in taken if c.batch_id == batch.id]
            due = [] if batch.owner.key.id in self.revoked else batch.due(model, now)
            assert len(mine) == min(count, len(due))
            for claimed in mine:
                request = batch.requests[claimed.number - batch.first]
                assert request in due
                request.status, request.holder, request.attempts = "running", claimed.lease, request.attempts + 1
                assert (claimed.attempt, claimed.model) == (request.attempts, model)
                assert request.attempts <= MAX_ATTEMPTS
                batch.started = True
                self.claimed.append((claimed, batch, request))
        assert len(taken) == len({c.number for c in taken})

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def report(self, data):
        chosen = data.draw(st.lists(st.integers(0, len(self.claimed) - 1), min_size=1, max_size=5, unique=True))
        self.tell([(data.draw(KINDS), self.claimed[index]) for index in chosen])

    @rule(who=st.integers(0, 1), model=st.sampled_from("ab"), kinds=st.lists(KINDS, min_size=1, max_size=6))
    def work(self, who, model, kinds):
        """Claim some and report each: what makes up most of a store's day."""
        before = len(self.claimed)
        self.claim(who, model, len(kinds))
        if taken := self.claimed[before:]:
            self.tell(list(zip(kinds, taken, strict=False)))

    def tell(self, stories):
        outcomes, touched = [], []
        for kind, (claimed, batch, request) in stories:
            if "retry" in kind and claimed.attempt == MAX_ATTEMPTS:
                kind = "failure"  # whoever reports does not ask for a retry beyond the last attempt
            outcomes.append(self.outcome(kind, claimed))
            if request.status == "running" and (request.holder, request.attempts) == (claimed.lease, claimed.attempt):
                self.apply(kind, batch, request, outcomes[-1])
                touched.append(batch)
        assert self.do(report, *outcomes) == len(touched)
        for batch in touched:
            batch.settle(self.clock.now)
        # One that was given back is claimed again with the same lease and attempt, so nobody may report it twice.
        back = {claimed for kind, (claimed, *_) in stories if kind == "give back"}
        self.claimed = [c for c in self.claimed if c[0] not in back]

    @staticmethod
    def outcome(kind, claimed):
        if kind.startswith("success"):
            return succeeded(claimed, cost=None if "unknown" in kind else 7)
        if kind.startswith("retry"):
            return to_retry(claimed, 0.0 if "once" in kind else 50.0)
        return failed(claimed) if kind == "failure" else given_back(claimed)

    def apply(self, kind, batch, request, outcome):
        request.holder = None
        if kind == "give back":
            request.status, request.attempts = "queued", request.attempts - 1
            return
        self.book(batch, outcome.cost)
        if "retry" in kind:
            request.status, request.due_at = "queued", self.clock.now + outcome.retry_in
        else:
            request.status = "completed" if kind.startswith("success") else "failed"

    @rule(who=st.integers(0, 1))
    def lose(self, who):
        lost = self.daemons[who]
        held = [(b, r) for b in self.lives for r in b.requests if r.holder == lost]
        assert self.do(take_over, lost) == len(held)
        for batch, request in held:
            self.book(batch, None)
            request.lose()
        for batch, _ in held:
            batch.settle(self.clock.now)
        self.daemons[who] = self.do(daemon, "again")

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def cancel(self, data):
        batch = self.batch(data)
        if not batch.deleted and batch.status in states.CLAIMABLE:
            batch.cancelled = True
            batch.close("cancelled", self.clock.now)
        read = self.do(cancel, batch.owner, batch.id)
        assert (read and read.status) == (None if batch.deleted else batch.status)

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def delete(self, data):
        batch = self.batch(data)
        deleted = self.do(delete, batch.owner, batch.id)
        assert deleted is (None if batch.deleted else not batch.running)
        batch.deleted = batch.deleted or bool(deleted)

    @rule(who=st.integers(0, 1))
    def revoke_key(self, who):
        key = self.owners[who].key
        assert self.write(accounts.revoke_key, key.id)
        self.revoked.add(key.id)
        self.owners[who] = self.do(owner, "another")

    @rule(seconds=st.sampled_from([10.0, 60.0, 200.0, 2000.0, POLICY.retention_s]))
    def pass_time(self, seconds):
        self.do(pass_time, self.clock, seconds)

    @rule()
    def housekeeping(self):
        now = self.clock.now
        self.do(sweep)
        for batch in self.lives:
            open_ = batch.final is None and not batch.deleted and batch.status != states.FINALIZING
            if open_ and batch.owner.key.id in self.revoked:
                batch.close("failed", now)
            elif open_ and batch.expires_at <= now:
                batch.close("expired", now)
            elif batch.final and batch.ended_at + POLICY.retention_s <= now:
                batch.deleted = True

    @rule()
    def finalize(self):
        self.do(finalize_all, self.daemons[0])
        for batch in self.lives:
            if batch.over and batch.final is None and not batch.deleted:
                batch.end(self.clock.now)

    @rule()
    def purge(self):
        self.do(purge_all, self.daemons[1])

    @invariant()
    def the_books_are_balanced(self):
        if self.lives:
            self.do(balanced, MAX_ATTEMPTS)

    @invariant()
    def the_store_says_what_the_model_says(self):
        if not self.lives:
            return
        found = self.read(self.all_batches)
        for batch in self.lives:
            read = found[batch.id]
            if batch.deleted:
                assert read is None
                continue
            assert (read.status, {name: getattr(read, name) for name in batch.counts()}) == (
                batch.status,
                batch.counts(),
            )
            assert (read.cost, read.cost_unknown) == (batch.cost, batch.unknown)
        assert self.read(self.all_books) == {account: tuple(line) for account, line in self.books.items()}

    def all_batches(self):
        found = {}
        for batch in self.lives:
            found[batch.id] = yield from batches.get(batch.owner.account.id, batch.id, "batches")
        return found

    def all_books(self):
        rows = yield Query("SELECT account_id, attempts, cost, cost_unknown FROM spending")
        total: dict[str, tuple[int, int, int]] = {}
        for account, *line in rows:
            total[account] = tuple(a + b for a, b in zip(total.get(account, (0, 0, 0)), line, strict=True))
        return total


async def live(store, clock, **how):
    settings = hypothesis.settings(
        deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck), **how
    )
    explore = functools.partial(run_state_machine_as_test, lambda: Lives(store, clock), settings=settings)
    await trio.to_thread.run_sync(explore)


async def test_the_store_agrees_with_the_model(store, clock):
    await live(store, clock, max_examples=40, stateful_step_count=50, derandomize=True)


@pytest.mark.torture
async def test_the_store_agrees_with_the_model_for_long(store, clock):
    await live(store, clock, max_examples=500, stateful_step_count=80)
