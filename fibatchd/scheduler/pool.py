"""One model's pool: it claims requests in chunks, just ahead of the free places, and runs them as places come free.

A place is free at once when an answer is there, and whoever held it takes the next request from a small stock of claimed
ones (`stock.py`): the store's latency stands between two claims, not between two requests, and no task is started for each.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Set
from contextlib import suppress

import structlog
import trio

from fibatchd.config import Model
from fibatchd.context import Context
from fibatchd.domain.requests import Claimed, Outcome
from fibatchd.errors import LeaseLost, StoreUnavailable, StoreUncertain
from fibatchd.inference.catalogue import is_drained
from fibatchd.inference.judge import Verdict, judge, owner_problem
from fibatchd.inference.load import room_for
from fibatchd.scheduler.accounts import AccountLoad
from fibatchd.scheduler.attempt import cut_short, given_back, run_attempt, until
from fibatchd.scheduler.demand import CLAIM_MAX, Demand, demand, fitting, is_low
from fibatchd.scheduler.lease import Lease
from fibatchd.scheduler.places import Room
from fibatchd.scheduler.rate import Rate
from fibatchd.scheduler.recorder import Recorder
from fibatchd.scheduler.roles import Ended
from fibatchd.scheduler.share import Share
from fibatchd.scheduler.stock import Goal, Stock
from fibatchd.scheduler.turns import Turns
from fibatchd.store import claims, leases
from fibatchd.store.claims import Candidate
from fibatchd.store.spending import utc_day
from fibatchd.upstream.balance import may_start

log = structlog.get_logger()

START_AT_ONCE = 32  # each takes some 0.1 ms until it waits for its answer, and the loop for all that start together
CLAIM_S = 30.0  # a claim takes milliseconds; a stopping daemon does not wait longer for one
WITHDRAWN_KEPT = 256  # batches and accounts remembered: more than are told of while one claim is under way
UNSENT_MAX = 64  # a second: where more is claimed only to be given back, its lane is left alone for a while
LOOK_AGAIN_S = 1.0  # while somebody waits for a quota, an access, a model: what ends that may come from another process
SLEEP_MAX_S = 60.0  # of a lane whose next retry is later: the store's clock may be set meanwhile
LOOK_IDLE_S = 5.0  # the safety net under the notifications


class Pool:
    """The batch requests of one model in this process."""

    def __init__(
        self,
        model_id: str,
        context: Context,
        recorder: Recorder,
        lease: Lease,
        accounts: AccountLoad,
        ended: Ended,
        attempts: trio.Nursery,
    ) -> None:
        self.model_id = model_id
        self.running: dict[Claimed, trio.CancelScope] = {}
        self.stock: Stock[Claimed] = Stock()
        self.waiting: dict[str, Verdict] = {}
        self._context = context
        self._recorder = recorder
        self._lease = lease
        self._accounts = accounts
        self._ended = ended
        self._attempts = attempts
        self._turns = Turns()
        self._room = Room()
        self._lanes: dict[int, Candidate] = {}
        self._sleeping: dict[int, float] = {}  # lanes whose next retry is due later, by trio's clock
        self._stale = True
        self._look_at = -math.inf
        self._wake = trio.Event()
        self._withdrawn: deque[str] = deque(maxlen=WITHDRAWN_KEPT)
        self._goal = Goal()
        self._unsent = Rate()
        self._share = Share(model_id, context, lease)
        self._unsure = False  # whether the store may hold a claim of ours that we do not know of

    def wake(self, *, look: bool = False) -> None:
        """Something changed: places, load, or (`look`) what there is to run."""
        self._stale = self._stale or look
        self._wake.set()

    def places_moved(self) -> None:
        """Another daemon gave up places of the model, or lacks some."""
        self._share.ask_soon()
        self.wake()

    async def give_up_places(self) -> None:
        """Hold no more places than are in use, starting nothing any more. Raises LeaseLost, StoreUnavailable."""
        running = len(self.running)
        if self._share.due(running, running):
            await self._share.ask(running, running, running)

    def lease_lost(self) -> None:
        """What is claimed here is another's now: start none of it, and cut what runs, since its results are refused."""
        self.stock.clear()
        for scope in self.running.values():
            scope.cancel()
        self._share.forget()
        self.wake(look=True)

    def withdraw(self, owner_id: str) -> None:
        """Give back what is claimed and not started of a batch that was closed, or of an account whose rights have changed. A
        claim that is on its way may still bring some of it: they are given back when they come."""
        self._withdrawn.append(owner_id)
        self._give_back(self.stock.remove(lambda claimed: owner_id in (claimed.batch_id, claimed.account_id)))

    def _withdraw_lanes(self, lanes: Set[int]) -> None:
        if lanes and self.stock:
            self._give_back(self.stock.remove(lambda claimed: claimed.lane in lanes))

    def drop_all(self) -> None:
        """Give back all that is claimed and not started."""
        self._give_back(self.stock.clear())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Claim and start until cancelled; what runs goes on in the nursery of attempts."""
        task_status.started()
        try:
            while True:
                self._wake = trio.Event()
                await self._start_all()
                look_again = await self._claim_some()
                await self._start_all()
                await until(self._wake, look_again)
        finally:
            self.drop_all()

    # Places

    def _limit(self, now: float) -> float:
        """Return how many may run here now."""
        model = self._in_service()
        if model is None or self._recorder.full or not self._lease.holds:
            return 0
        return self._share.limit(model, self._room_for(model, now))

    def _in_service(self) -> Model | None:
        model = self._context.config.find_model(self.model_id)
        return None if model is None or is_drained(model, self._context.drained) else model

    def _room_for(self, model: Model, now: float) -> float:
        self._room.note(room_for(model, self._context.load.interactive(self.model_id)), now)
        return self._room.least(now)

    def _startable(self, now: float) -> tuple[float, float]:
        """Return how many requests the model's upstreams would take now, and by when that may change."""
        return may_start([member.replica for member in self._context.executor.fleet.of(self.model_id)], now)

    def _free(self, now: float) -> float:
        """Return how many more may be started now."""
        return max(0.0, min(self._limit(now) - len(self.running), self._startable(now)[0]))

    def _free_again(self, now: float) -> float:
        """Return by when that may rise by itself."""
        startable, again = self._startable(now)
        return min(self._room.rises_at(now), again if startable == 0 else math.inf)

    # Running

    async def _start_all(self) -> None:
        """Start what may be started; others have the loop in between."""
        await trio.lowlevel.checkpoint_if_cancelled()  # what a stopping pool has claimed is given back, not started
        while self._start():
            await trio.lowlevel.checkpoint()

    def _start(self) -> bool:
        """Start some; return whether there may be more to start."""
        free = self._free(trio.current_time()) if self.stock else 0
        for _ in range(START_AT_ONCE):
            if free < 1 or (claimed := self.stock.take(self._begin)) is None:
                return False
            scope = self.running[claimed] = trio.CancelScope()
            self._attempts.start_soon(self._work, claimed, scope)
            free -= 1
        return True

    def _begin(self, claimed: Claimed) -> bool:
        return self._accounts.begin(claimed.account_id, claimed.tier, self)

    async def _work(self, claimed: Claimed | None, scope: trio.CancelScope) -> None:
        """Run requests on one place, one after the other, for as long as it may be used and there are any."""
        with scope:
            while claimed is not None:
                outcome: Outcome | None = None
                try:
                    outcome = await run_attempt(claimed, self._context)
                finally:  # whatever it is that ends it, and Cancelled may come in a group
                    del self.running[claimed]
                    ended = outcome or cut_short(claimed, self._context.config.batches)
                    self._accounts.budgets.spend(claimed.account_id, ended.cost)
                    self._accounts.end(claimed.account_id, self)
                    self._recorder.put(ended)
                claimed = self._after(outcome, scope)

    def _after(self, outcome: Outcome, scope: trio.CancelScope) -> Claimed | None:
        """An attempt is over: return what its place runs next, and see to it that there will be more."""
        now = trio.current_time()
        if outcome.sent:
            self._goal.note_completed(now)
        else:
            self._unsent.note(now)
            if self._unsent.at(now) > UNSENT_MAX:  # the upstreams that can take it are out, and others are not
                self._sleeping[outcome.claimed.lane] = now + LOOK_AGAIN_S
        free, following = self._free(now), None
        if free >= 1 and not scope.cancel_called and (following := self.stock.take(self._begin)) is not None:
            self.running[following] = scope
        # One that ends may make room for several: a probe that came back.
        more_to_start = free >= 2 and self._start()
        if more_to_start or is_low(len(self.stock), self._goal.at(now)) or self._share.may_give_up(len(self.running)):
            self.wake()
        return following

    def _give_back(self, unstarted: Iterable[Claimed]) -> None:
        for claimed in unstarted:
            self._recorder.put(given_back(claimed))

    # Claiming

    async def _claim_some(self) -> float:
        """Claim what there is room for; return until when (trio's clock) nothing needs to be done."""
        now = trio.current_time()
        try:
            if self._unsure:
                await self._give_back_unknown()
            await self._look(now)
            self._sleeping = {lane: due for lane, due in self._sleeping.items() if due > now and lane in self._lanes}
            await self._ask_for_places(now)
            again = min(self._free_again(now), self._look_at, self._shrink_stock(now), self._share.ask_by())
            free = self._free(now)
            awake = {lane: candidate for lane, candidate in self._lanes.items() if lane not in self._sleeping}
            held = [*self.stock, *self.running]
            lanes = {claimed.lane for claimed in held}
            due = demand(awake, lanes, free=int(free), held=len(self.stock), goal=self._goal.at(now))
            at_once = min(due.wanted, CLAIM_MAX, fitting([len(claimed.body) for claimed in held]))
            if awake and at_once and (free or self.running) and self._context.store.has_room():
                got = await self._claim(due, at_once)
                if got < due.wanted and (got or len(self._lanes) - len(self._sleeping) < len(awake)):
                    return now  # there is room for more: there may be more to run, in other lanes if some ran dry
        except StoreUnavailable as error:
            log.warning("claims wait for the store", model=self.model_id, error=str(error))
            self._stale = True
            self.drop_all()  # it would start, perhaps much later, on what nobody can look up now
            return now + LOOK_AGAIN_S
        except LeaseLost:
            self._share.ask_soon()
            with suppress(StoreUnavailable):
                await self._lease.renew()
                return now
            return now + LOOK_AGAIN_S
        return min([again, *self._sleeping.values()])

    def _shrink_stock(self, now: float) -> float:
        """Give the stock back where it has nowhere to go: others could run it, and it would start on what was true long
        ago. Return when to look again."""
        if not self.stock:
            return math.inf
        if not self._goal.at(now) or self._in_service() is None:
            self.drop_all()
        for account_id in [one for one in self.stock.accounts() if self._accounts.budgets.is_used_up(one)]:
            self.withdraw(account_id)
        return now + LOOK_AGAIN_S

    async def _look(self, now: float) -> None:
        """Read the candidates anew when told to, when what was read is used up, and now and then."""
        if not self._stale and now < self._look_at:
            return
        self._stale = False
        found, store_now = await self._context.store.read(claims.candidates, self.model_id)
        self._accounts.budgets.renew(utc_day(store_now))
        unwritten = self._recorder.unwritten()
        for candidate in found:
            self._accounts.budgets.note(candidate.account, candidate.spent, unwritten, 1 + self._lease.others)
        self._lanes = {candidate.lane: candidate for candidate in found if self._sort(candidate, store_now)}
        self._withdraw_lanes({candidate.lane for candidate in found} - self._lanes.keys())
        still = {candidate.batch_id for candidate in found}
        self.waiting = {batch_id: why for batch_id, why in self.waiting.items() if batch_id in still}
        self._look_at = now + (LOOK_AGAIN_S if found else LOOK_IDLE_S)

    def _sort(self, candidate: Candidate, now: float) -> bool:
        """Return whether a candidate may run now, and see to those that never may."""
        verdict = self._judge(candidate, now)
        if verdict is Verdict.RUN:
            self.waiting.pop(candidate.batch_id, None)
            return True
        if verdict is Verdict.OWNER:
            self._ended.owner_gone(candidate.batch_id, owner_problem(candidate, now) or "")
        elif verdict is Verdict.MODEL:
            self._ended.model_gone(candidate.lane)
        elif self.waiting.get(candidate.batch_id) is not verdict:
            log.info("batch waits", batch=candidate.batch_id, model=self.model_id, reason=verdict.value)
        self.waiting[candidate.batch_id] = verdict
        return False

    def _judge(self, candidate: Candidate, now: float) -> Verdict:
        return judge(candidate, self._context.config, self._context.drained, now)

    def _may_run(self, candidate: Candidate, now: float) -> bool:
        return self._judge(candidate, now) is Verdict.RUN

    async def _claim(self, due: Demand[Candidate], at_once: int) -> int:
        """Claim what is due into the stock, as turns and accounts allow; return how many came."""
        now, daemon = trio.current_time(), self._lease.daemon
        takes = self._share_out(due, at_once)
        if not takes:
            return 0
        counts: Counter[str] = Counter()
        for lane, count in takes:
            counts[self._lanes[lane].account.id] += count
        self._withdrawn.clear()  # whatever was told of is stored: a claim that begins now knows it
        try:
            # A claim that was cut could be done all the same, and nobody would know of its requests.
            with self._accounts.claiming(counts, self), trio.fail_after(CLAIM_S, shield=True):
                claim = await self._context.store.write(claims.claim, daemon, takes, self._may_run)
        except (trio.TooSlowError, StoreUncertain) as error:
            self._unsure = True
            raise StoreUnavailable(f"no answer to a claim: {error}") from None
        # Where the lease was lost meanwhile, so was what came with it.
        got = claim.requests if daemon == self._lease.daemon else []
        later = trio.current_time()
        self._goal.note_claim(later - now, ran_dry=not self.stock and self._free(later) >= 1)
        self.stock.add(got)
        for owner_id in {of for claimed in got for of in (claimed.batch_id, claimed.account_id)} & set(self._withdrawn):
            self.withdraw(owner_id)
        self._withdraw_lanes(claim.shut)
        self._note_dry(claim, now)
        return len(got)

    def _share_out(self, due: Demand[Candidate], at_once: int) -> list[tuple[int, int]]:
        """Return how many to claim from which lane. What is claimed ahead does not count against an account's limit: that
        holds when it starts."""
        by_account: dict[str, list[Candidate]] = {}
        for candidate in due.lanes.values():
            by_account.setdefault(candidate.account.id, []).append(candidate)

        def room(account_id: str) -> int:
            if self._accounts.budgets.is_used_up(account_id):
                return 0
            left = self._accounts.left(account_id, by_account[account_id][0].account.tier)
            if left < due.wanted:
                self._accounts.hold_up(account_id, self)
            return max(0, left + due.ahead - self.stock.of(account_id))

        return self._turns.pick(by_account, at_once, room)

    def _note_dry(self, claim: claims.Claim, now: float) -> None:
        """Put lanes to sleep until their next retry, and forget those that have nothing left."""
        for lane, due in claim.dry.items():
            if due is None:
                self._lanes.pop(lane, None)
                self._sleeping.pop(lane, None)
            elif due > claim.now:
                self._sleeping[lane] = now + min(due - claim.now, SLEEP_MAX_S)
        if not self._lanes:
            self._stale = True

    async def _give_back_unknown(self) -> None:
        """Have what the store holds for this daemon, and nobody here knows of, queued again. No claim is under way now."""
        known = {claimed.number for claimed in (*self.stock, *self.running, *self._recorder.waiting())}
        held = await self._context.store.write(leases.holdings, self._lease.daemon, self.model_id)
        self._unsure = False
        lost = [request for request in held if request.number not in known]
        for request in lost:
            self._recorder.put(given_back(request.as_claimed(self._lease.daemon, self.model_id)))
        if lost:
            log.warning("gave back what an unanswered claim had taken", model=self.model_id, count=len(lost))

    async def _ask_for_places(self, now: float) -> None:
        """Where daemons share the model's places, hold as many as can be used here."""
        if not self._context.store.shared:
            return
        model = self._context.config.find_model(self.model_id)
        concurrency = model.concurrency if model else 0
        running, wanted = len(self.running), min(self._usable(now), concurrency)
        if self._share.due(running, wanted):
            room = self._room_for(model, now) if model else 0
            await self._share.ask(running, wanted, min(concurrency, room))
            if not self.running and not self._limit(now):
                self.drop_all()  # it may take long until there are places again: others can run it

    def _usable(self, now: float) -> int:
        """Return how many places this daemon has a use for: what runs, and what it could start."""
        if self._in_service() is None or self._recorder.full:
            return len(self.running)
        queued: Counter[tuple[str, str]] = Counter()
        for lane, candidate in self._lanes.items():
            if lane not in self._sleeping:
                queued[candidate.account.id, candidate.account.tier] += candidate.queued
        for claimed in self.stock:
            queued[claimed.account_id, claimed.tier] += 1
        more = sum(min(count, self._accounts.left(*owner)) for owner, count in queued.items())
        return len(self.running) + int(min(more, self._startable(now)[0]))
