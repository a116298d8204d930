"""The sentences that the store's tests are told in: an owner, a batch, a daemon that claims, what came of it.

Everything goes through the scripts, as the program does it; nothing here knows a driver.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fibatchd.domain.accounts import Account, Key
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Claimed, Failure, NewRequest, Outcome, Result, Usage
from fibatchd.ids import new_id
from fibatchd.store import accounts, admission, batches, claims, ending, jobs, leases, record, results, sweeps
from fibatchd.store.admission import IdempotencyKey, Limits, NewBatch, Reserved
from fibatchd.store.ending import Policy
from fibatchd.store.interface import NOW, Query, Script

DAY = 86400.0
POLICY = Policy(retention_s=7 * DAY, idempotency_retention_s=DAY)
LIMITS = Limits(batches=10, requests=100_000)
API = "batches"
MAX_ATTEMPTS = 3
FINALIZER = "write-files"
REFUSED = Failure("invalid_request", "max_tokens: expected a whole number", 400)


@dataclass(frozen=True)
class Owner:
    """An account and the key that its batches run under."""

    account: Account
    key: Key


async def owner(store: Any, name: str = "ada", tier: str = "internal", **key: Any) -> Owner:
    account = await store.write(accounts.create_account, name, tier)
    made, _ = await store.write(accounts.create_key, account.id, **key)
    return Owner(account, made)


def new_batch(who: Owner, *, window_s: float = DAY, finalizer: str | None = None, **more: Any) -> NewBatch:
    return NewBatch(
        id=new_id("batch_"),
        api=API,
        source="inline" if finalizer is None else "file",
        account_id=who.account.id,
        key_id=who.key.id,
        endpoint="/v1/chat/completions",
        window_s=window_s,
        finalizer=finalizer,
        **more,
    )


def requests_for(models: Sequence[str], refused: int = 0) -> list[NewRequest]:
    """One request for each model named, the first `refused` of them failed by their own check."""
    return [
        NewRequest(f"q-{index}", model, b'{"prompt": %d}' % index, REFUSED if index < refused else None)
        for index, model in enumerate(models)
    ]


def stage(new: NewBatch, status: str, requests: Sequence[NewRequest]) -> Script[Reserved]:
    """Store a batch's row and take the numbers of its requests."""
    yield from admission.insert(new, status)
    return (yield from admission.reserve(new.id, sorted({r.model for r in requests}), len(requests)))


def counts(requests: Sequence[NewRequest]) -> tuple[Counter[str], int]:
    """Return how many may run, by model, and how many failed their check."""
    return Counter(r.model for r in requests if r.failure is None), sum(r.failure is not None for r in requests)


async def create(
    store: Any,
    who: Owner,
    models: Sequence[str] = ("m", "m", "m"),
    *,
    refused: int = 0,
    limits: Limits = LIMITS,
    policy: Policy = POLICY,
    key: IdempotencyKey | None = None,
    **more: Any,
) -> Any:
    """Do what a create call does; return what `publish` does: the Batch, a Replay or an OverLimit."""
    new, requests = new_batch(who, **more), requests_for(models, refused)
    reserved = await store.write(stage, new, "staging", requests)
    assert await store.write(admission.append, reserved, 0, requests)
    made = await store.write(admission.publish, new, reserved, *counts(requests), limits, policy, key)
    if not isinstance(made, Batch):
        await store.write(admission.abandon, new.id)
    return made


async def upload(store: Any, who: Owner, models: Sequence[str] = ("m", "m", "m"), **more: Any) -> Reserved:
    """Store a batch whose requests come from a file: readers see it, and it may not run before `prepare`."""
    new, requests = new_batch(who, finalizer=FINALIZER, **more), requests_for(models)
    reserved = await store.write(stage, new, "validating", requests)
    assert await store.write(admission.append, reserved, 0, requests)
    return reserved


async def prepare(store: Any, reserved: Reserved, models: Sequence[str] = ("m", "m", "m")) -> bool:
    return await store.write(admission.open_batch, reserved, Counter(models), 0, len(models))


async def daemon(store: Any, name: str = "one") -> int:
    return await store.write(leases.register, name)


async def pass_time(store: Any, clock: Any, seconds: float) -> None:
    """Move the clock; daemons renewed their leases meanwhile, as they do every few seconds."""
    clock.advance(seconds)

    def renewed() -> Script[None]:
        ((now,),) = yield NOW
        yield Query("UPDATE daemons SET deadline = ? WHERE deadline > 0", (now + leases.LEASE_S,))

    await store.write(renewed)


def anyone(candidate: claims.Candidate, now: float) -> bool:
    return True


async def claim(store: Any, who: int, model: str = "m", count: int = 1000, may_run: Any = anyone) -> list[Claimed]:
    """Take up to `count` requests from each of a model's lanes."""
    found, _ = await store.read(claims.candidates, model)
    taken = await store.write(claims.claim, who, [(c.lane, count) for c in found], may_run)
    return sorted(taken.requests, key=lambda c: c.number)


ANSWER = b'{"choices": [{"message": {"content": "42"}}]}'
USAGE = Usage(input_tokens=10, cached_tokens=4, output_tokens=5, reasoning_tokens=2)
COST = 1_000_003


def succeeded(claimed: Claimed, body: bytes = ANSWER, cost: int | None = COST) -> Outcome:
    return Outcome(claimed, new_id("req_"), answer=(200, body), usage=USAGE, cost=cost)


def failed(claimed: Claimed) -> Outcome:
    return Outcome(claimed, new_id("req_"), failure=Failure("invalid_request", "no such parameter", 400))


def to_retry(claimed: Claimed, retry_in: float = 10.0, cost: int | None = None) -> Outcome:
    failure = Failure("timeout", "no answer in time", 504)
    return Outcome(claimed, new_id("req_"), failure=failure, retry_in=retry_in, cost=cost)


def given_back(claimed: Claimed) -> Outcome:
    return Outcome(claimed, new_id("req_"), sent=False)


async def report(store: Any, *outcomes: Outcome, policy: Policy = POLICY) -> int:
    return await store.write(record.record, list(outcomes), policy)


async def get(store: Any, who: Owner, batch_id: str) -> Batch | None:
    return await store.read(batches.get, who.account.id, batch_id, API)


async def cancel(store: Any, who: Owner, batch_id: str) -> Batch | None:
    return await store.write(batches.cancel, who.account.id, batch_id, API, POLICY)


async def delete(store: Any, who: Owner, batch_id: str) -> bool | None:
    return await store.write(batches.delete, who.account.id, batch_id, API, POLICY)


async def read_results(store: Any, batch: Batch) -> list[Result]:
    span = results.Range.of(batch)
    return list(await store.read(results.piece, batch, span.first, span.last, max_rows=10_000, max_bytes=1 << 30))


async def take_over(store: Any, lost: int, max_attempts: int = MAX_ATTEMPTS) -> int:
    """Do what the sweep of leases does with one lost daemon; return how many requests it had."""
    total = 0
    while taken := await store.write(leases.take_over, lost, max_attempts, POLICY):
        total += taken
    await store.write(leases.forget, lost)
    return total


def finalize(job: jobs.Job, policy: Policy = POLICY) -> Script[None]:
    """End a batch as a finalizer does, once its files are written."""
    if (yield from jobs.holds(job)):
        ((now,),) = yield NOW
        if (batch := (yield from batches.lock(job.subject))) is not None:
            yield from ending.end(batch, policy, now)
        yield from jobs.done(job)


async def finalize_all(store: Any, who: int) -> int:
    done = 0
    while job := await store.write(jobs.take, FINALIZER, who):
        await store.write(finalize, job)
        done += 1
    return done


async def sweep(store: Any, *, limit: int = 100) -> None:
    """One round of the housekeeping, in the order of a batch's life."""
    for batch_id in await store.read(sweeps.owners_gone, limit):
        await store.write(ending.fail, batch_id, "owner_unauthorized", "The API key is no longer valid", POLICY)
    for batch_id in await store.read(sweeps.due_to_expire, limit):
        await store.write(ending.expire, batch_id, POLICY)
    for batch_id in await store.read(sweeps.due_to_delete, limit):
        await store.write(sweeps.delete_ended, batch_id, POLICY)
    while await store.write(sweeps.forget_keys, limit):
        pass


async def purge_all(store: Any, who: int) -> int:
    """Do the purge jobs that wait; return how many there were."""
    purged = 0
    while job := await store.write(jobs.take, "purge", who):
        while await store.write(sweeps.purge, job.subject):
            pass
        await store.write(jobs.done, job)
        purged += 1
    return purged
