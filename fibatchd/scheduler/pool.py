"""One model's pool: it claims requests in chunks, just ahead of the free places, and starts them as places come free.

A place is free at once when an answer is there, and the next request is taken from a small stock of claimed ones: the
store's latency stands between two claims, not between two requests. The stock holds what runs in some 20 ms (more while
the store is slow), so for a slow model it is empty and nothing waits here that others could run.
"""

import math
from collections import Counter, deque
from contextlib import suppress
from typing import Protocol

import structlog
import trio

from fibatchd.config import Model
from fibatchd.context import Context
from fibatchd.domain.requests import Claimed, Outcome
from fibatchd.errors import LeaseLost, StoreUnavailable, StoreUncertain
from fibatchd.inference.catalogue import is_drained
from fibatchd.inference.judge import Verdict, judge, owner_problem
from fibatchd.scheduler.accounts import AccountLoad
from fibatchd.scheduler.attempt import cut_short, given_back, run_attempt, until
from fibatchd.scheduler.lease import Lease
from fibatchd.scheduler.places import Room, room_for
from fibatchd.scheduler.rate import Rate
from fibatchd.scheduler.recorder import Recorder
from fibatchd.scheduler.share import Share
from fibatchd.scheduler.turns import Turns, in_turns
from fibatchd.store import claims, leases
from fibatchd.store.claims import Candidate
from fibatchd.upstream.balance import may_start

log = structlog.get_logger()

STOCK_S = 0.02  # the stock lasts about so long, or as long as two claims where those take longer
STOCK_MAX_S = 0.5
STOCK_MAX = 128
CLAIM_MAX = 256  # requests of one claim: so long a transaction may hold up the others
START_AT_ONCE = 32  # each takes some 0.1 ms until it waits for its answer, and the loop for all that start together
CLAIM_S = 30.0  # a claim takes milliseconds; a stopping daemon does not wait longer for one
CLOSED_KEPT = 256  # closed batches remembered: more than can close while one claim is under way
CLAIM_WEIGHT = 0.2  # of the last claim among all in how long one takes
UNSENT_MAX = 64  # a second: where more is claimed only to be given back, its lane is left alone for a while
LOOK_AGAIN_S = 1.0  # while somebody waits for a quota, an access, a model: what ends that may come from another process
LOOK_IDLE_S = 5.0  # the safety net under the notifications


class Ended(Protocol):
    """What the pool does not decide itself: see pools.py."""

    def owner_gone(self, batch_id: str, why: str) -> None:
        """The batch's key or account is no longer valid."""
        ...

    def model_gone(self, lane: int) -> None:
        """The requests of this lane can never run."""
        ...


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
        self.stock: deque[Claimed] = deque()
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
        self._closed: deque[str] = deque(maxlen=CLOSED_KEPT)
        self._completed = Rate()
        self._unsent = Rate()
        self._claim_s = 0.0  # how long claims have taken of late
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
        for claimed in self.stock:
            self._accounts.release(claimed.account_id)
        self.stock.clear()
        for scope in self.running.values():
            scope.cancel()
        self._share.forget()
        self.wake(look=True)

    def drop(self, batch_id: str) -> None:
        """Give back what is claimed of a batch and not started; it was closed. A claim that is on its way may still bring
        some of it: they are given back when they come."""
        self._closed.append(batch_id)
        kept: deque[Claimed] = deque()
        for claimed in self.stock:
            if claimed.batch_id == batch_id:
                self._give_back(claimed)
            else:
                kept.append(claimed)
        self.stock = kept

    def drop_all(self) -> None:
        """Give back all that is claimed and not started."""
        while self.stock:
            self._give_back(self.stock.popleft())

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
        model = self._context.config.find_model(self.model_id)
        if model is None or self._is_drained(model) or self._recorder.full or not self._lease.holds:
            return 0
        return self._share.limit(model, self._room_for(model, now))

    def _is_drained(self, model: Model) -> bool:
        return is_drained(model, self._context.drained)

    def _room_for(self, model: Model, now: float) -> float:
        self._room.note(room_for(model, self._context.load.interactive(self.model_id)), now)
        return self._room.least(now)

    def _startable(self, now: float) -> tuple[float, float]:
        """Return how many requests the model's upstreams would take now, and by when that may change."""
        return may_start([member.replica for member in self._context.executor.fleet.of(self.model_id)], now)

    def _free(self, now: float) -> tuple[float, float]:
        """Return how many more may be started now, and by when to look again."""
        startable, again = self._startable(now)
        free = min(self._limit(now) - len(self.running), startable)
        return max(0.0, free), min(self._room.rises_at(now), again if startable == 0 else math.inf)

    def _stock_wanted(self, now: float) -> int:
        """Return how many to hold ahead: what is completed, at the rate of late, while claims are under way."""
        return min(STOCK_MAX, int(self._completed.at(now) * min(STOCK_MAX_S, max(STOCK_S, 2 * self._claim_s))))

    # Starting

    async def _start_all(self) -> None:
        """Start what may be started; others have the loop in between."""
        await trio.lowlevel.checkpoint_if_cancelled()  # what a stopping pool has claimed is given back, not started
        while self._start():
            await trio.lowlevel.checkpoint()

    def _start(self) -> bool:
        """Start some; return whether there may be more to start."""
        free, _ = self._free(trio.current_time())
        for _ in range(START_AT_ONCE):
            if not self.stock or free < 1:
                return False
            claimed = self.stock.popleft()
            self.running[claimed] = trio.CancelScope()
            free -= 1
            self._attempts.start_soon(self._attempt, claimed)
        return True

    async def _attempt(self, claimed: Claimed) -> None:
        outcome: Outcome | None = None
        with self.running[claimed]:
            try:
                outcome = await run_attempt(claimed, self._context)
            finally:  # whatever it is that ends it, and Cancelled may come in a group
                del self.running[claimed]
                self._accounts.release(claimed.account_id)
                self._recorder.put(outcome or cut_short(claimed, self._context.config.batches))
            self._after(outcome)

    def _after(self, outcome: Outcome) -> None:
        """An attempt is over: start the next, and see to it that there will be more."""
        now = trio.current_time()
        if outcome.sent:
            self._completed.note(now)
        else:
            self._unsent.note(now)
            if self._unsent.at(now) > UNSENT_MAX:  # the upstreams that can take it are out, and others are not
                self._sleeping[outcome.claimed.lane] = now + LOOK_AGAIN_S
        if self.stock and self._start():
            self.wake()
        if len(self.stock) * 2 <= self._stock_wanted(now) or self._share.may_give_up(len(self.running)):
            self.wake()

    def _give_back(self, claimed: Claimed) -> None:
        self._accounts.release(claimed.account_id)
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
            free, again = self._free(now)
            again = min(again, self._look_at, self._shrink_stock(free, now))
            awake = len(self._lanes) - len(self._sleeping)
            if not awake:
                return min([again, *self._sleeping.values()])
            wanted = free + self._stock_wanted(now) - len(self.stock) if free or self.running else 0
            if wanted >= 1 and self._context.store.has_room():
                asked = int(min(wanted, CLAIM_MAX))
                got = await self._claim(asked)
                if got < int(wanted) and (got == asked or len(self._lanes) - len(self._sleeping) < awake):
                    return now  # there is room for more: there may be more to run, in other lanes if some ran dry
        except StoreUnavailable as error:
            log.warning("claims wait for the store", model=self.model_id, error=str(error))
            self._stale = True
            return now + LOOK_AGAIN_S
        except LeaseLost:
            self._share.ask_soon()
            with suppress(StoreUnavailable):
                await self._lease.renew()
                return now
            return now + LOOK_AGAIN_S
        return min([again, *self._sleeping.values()])

    def _shrink_stock(self, free: float, now: float) -> float:
        """Give the stock back where it has nowhere to go: it would keep places of its accounts, and would start on what was
        true of them long ago. Return when to look again."""
        if not self.stock or free >= 1:
            return math.inf
        if self._stock_wanted(now) == 0:
            self.drop_all()
        return now + LOOK_AGAIN_S

    async def _look(self, now: float) -> None:
        """Read the candidates anew when told to, when what was read is used up, and now and then."""
        if not self._stale and now < self._look_at:
            return
        self._stale = False
        found, store_now = await self._context.store.read(claims.candidates, self.model_id)
        self._lanes = {candidate.lane: candidate for candidate in found if self._sort(candidate, store_now)}
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

    async def _claim(self, wanted: int) -> int:
        """Claim up to so many requests into the stock, as turns and accounts allow; return how many came."""
        now = trio.current_time()
        by_account: dict[str, list[Candidate]] = {}
        for lane, candidate in self._lanes.items():
            if self._sleeping.get(lane, -math.inf) <= now:
                by_account.setdefault(candidate.account.id, []).append(candidate)
        tiers = {account: found[0].account.tier for account, found in by_account.items()}
        takes = self._turns.pick(
            by_account, wanted, lambda account: self._accounts.room(account, tiers[account], wanted, self)
        )
        if not takes:
            return 0
        # Counted before the store is asked: another pool must not give the same account the same places meanwhile.
        reserved: Counter[str] = Counter()
        for lane, count in takes:
            reserved[self._lanes[lane].account.id] += count
        for account, count in reserved.items():
            self._accounts.reserve(account, count)
        got: list[Claimed] = []
        daemon = self._lease.daemon
        try:
            # A claim that was cut could be done all the same, and nobody would know of its requests.
            with trio.fail_after(CLAIM_S, shield=True):
                claim = await self._context.store.write(claims.claim, daemon, takes, self._may_run)
            if daemon == self._lease.daemon:  # else it was lost meanwhile, and what came with it
                got = claim.requests
        except (trio.TooSlowError, StoreUncertain) as error:
            self._unsure = True
            raise StoreUnavailable(f"no answer to a claim: {error}") from None
        finally:
            for account, count in (reserved - Counter(claimed.account_id for claimed in got)).items():
                self._accounts.release(account, count)
        self.stock = deque(in_turns((*self.stock, *got)))
        for batch_id in {claimed.batch_id for claimed in got} & set(self._closed):
            self.drop(batch_id)
        self._note_dry(claim, now)
        self._claim_s += CLAIM_WEIGHT * (trio.current_time() - now - self._claim_s)
        return len(got)

    def _note_dry(self, claim: claims.Claim, now: float) -> None:
        """Put lanes to sleep until their next retry, and forget those that have nothing left."""
        for lane, due in claim.dry.items():
            if due is None:
                self._lanes.pop(lane, None)
                self._sleeping.pop(lane, None)
            elif due > claim.now:
                self._sleeping[lane] = now + due - claim.now
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
        model = self._context.config.find_model(self.model_id)
        if model is None or self._is_drained(model) or self._recorder.full:
            return len(self.running)
        queued: Counter[tuple[str, str]] = Counter()
        for lane, candidate in self._lanes.items():
            if lane not in self._sleeping:
                queued[candidate.account.id, candidate.account.tier] += candidate.queued
        more = sum(min(count, self._accounts.left(*owner)) for owner, count in queued.items())
        return len(self.running) + int(min(len(self.stock) + more, self._startable(now)[0]))
