"""What SQLite does for the hot statements: always an index, never a table read through; and how much, in steps of its
virtual machine, with a hundred unfinished requests and with a hundred thousand.

The statements are not copied here: they are taken from the scripts while these run.
"""

from plans import NOW, Database, iter_once, scans, settle
from scenario import (
    API,
    DAY,
    FINALIZER,
    LIMITS,
    POLICY,
    anyone,
    counts,
    failed,
    new_batch,
    requests_for,
    stage,
    succeeded,
    to_retry,
)  # fmt: skip

from fibatchd.domain.accounts import secret_hash
from fibatchd.domain.requests import Failure
from fibatchd.store import (
    accounts,
    admission,
    batches,
    claims,
    ending,
    jobs,
    leases,
    migrate,
    record,
    results,
    spending,
    sweeps,
)  # fmt: skip
from fibatchd.store.admission import IdempotencyKey
from fibatchd.store.interface import Query
from fibatchd.store.sqlite import open_sqlite
from fibatchd.store.standing import standing

KEY = IdempotencyKey("k", "/v1/batches", b"1" * 32)


def scenes(database):
    """Run every script that a daemon runs over and over, or for a call; yield each one's name afterwards."""
    owner, secret, (batch, other), worker = settle(database, 20, 2)
    account, run = owner.account.id, database.run

    def play(name, script, *args, **how):
        database.statements.clear()
        played[name] = run(script, *args, **how)
        return name

    played = {}
    yield play("authenticate", accounts.authenticate, secret_hash(secret))
    yield play("replay", admission.replay, account, KEY)
    new, requests = new_batch(owner), requests_for(["m", "n"])
    reserved = run(stage, new, "staging", requests)
    yield play("append", admission.append, reserved, 0, requests)
    yield play("publish", admission.publish, new, reserved, *counts(requests), LIMITS, POLICY, KEY)
    yield play("candidates", claims.candidates, "m")
    lanes = [c.lane for c in played["candidates"][0]]
    yield play("claim", claims.claim, worker, [(lane, 30) for lane in lanes], anyone)
    first, second, third, *_ = played["claim"].requests
    yield play("record", record.record, [succeeded(first), failed(second), to_retry(third)], POLICY)
    yield play("status", batches.get, account, batch.id, API)
    yield play("list", batches.page, account, API, limit=20)
    yield play("list on", batches.page, account, API, after=batch.id, limit=20)
    yield play("list back", batches.page, account, API, before=batch.id, limit=20)
    span = results.Range.of(batch)
    yield play("results", results.piece, batch, span.first, span.last, max_rows=100, max_bytes=1 << 20)
    yield play("unfinished", admission.unfinished, account, besides=batch.id)
    yield play("spent today", spending.spent_today, account)
    yield from housekeeping(play, played, worker, batch)
    yield play("fail lane", sweeps.fail_lane, lanes[0], Failure("model_not_found", "gone", 404), 1, POLICY)
    yield play("take over", leases.take_over, worker, 8, POLICY)
    yield play("forget", leases.forget, worker)
    yield play("cancel", batches.cancel, account, batch.id, API, POLICY)
    yield play("expire", ending.expire, other.id, POLICY)
    yield play("fail", ending.fail, other.id, "owner_unauthorized", "gone", POLICY)
    yield play("delete", batches.delete, account, batch.id, API, POLICY)
    yield play("purge", sweeps.purge, batch.id)
    yield play("abandon", admission.abandon, run(lambda: staged(owner)))


def housekeeping(play, played, worker, batch):
    """What a daemon does without being asked."""
    yield play("renew", leases.renew, worker, {"m": 1})
    yield play("lost daemons", leases.lost_daemons)
    yield play("places", leases.hold_places, worker, "m", 4, 8)
    yield play("enqueue", jobs.enqueue, FINALIZER, batch.id, NOW, unique=True)
    yield play("take job", jobs.take, FINALIZER, worker)
    yield play("holds", jobs.holds, played["take job"])
    yield play("job done", jobs.done, played["take job"])
    yield play("due to expire", sweeps.due_to_expire, 10)
    yield play("due to delete", sweeps.due_to_delete, 10)
    yield play("owners gone", sweeps.owners_gone, 10)
    yield play("stale staging", sweeps.stale_staging, 60)
    yield play("forget keys", sweeps.forget_keys, 10)
    yield play("bring forward", sweeps.bring_forward, 3600, 10)
    yield play("standing", standing)


def staged(owner):
    new = new_batch(owner)
    yield from admission.insert(new, "staging")
    return new.id


async def test_no_hot_statement_reads_a_table_through(database):
    explained = 0
    for name in scenes(database):
        for sql, plan in database.plans():
            assert not scans(plan), f"{name}: {sql}\n" + "\n".join(plan)
            explained += 1
    assert explained > 80


async def test_a_scan_would_be_seen(database):
    database.run(lambda: iter_once(Query("SELECT number FROM requests WHERE started_at > ?", (0,))))
    ((_, plan),) = database.plans()
    assert scans(plan) == ["SCAN requests"]
    database.run(lambda: iter_once(Query("SELECT COUNT(*) FROM batches WHERE api = ?", ("x",))))
    ((_, plan),) = database.plans()
    assert len(scans(plan)) == 1


def measured(database, size, batch_count):
    """Return the steps of what happens all day, with `size` times `batch_count` requests unfinished."""
    owner, _, made, worker = settle(database, size, batch_count)
    batch, account, steps = made[0], owner.account.id, {}
    assert database.run(admission.unfinished, account, besides="") == (batch_count, batch_count * size)

    def count(name, script, *args, **how):
        steps[name] = database.steps(script, *args, **how)

    count("candidates", claims.candidates, "m")
    ((lane, *_), _) = database.run(claims.candidates, "m")
    count("claim", claims.claim, worker, [(lane.lane, 10)], anyone)
    taken = database.run(claims.claim, worker, [(lane.lane, 20)], anyone).requests
    count("record", record.record, [succeeded(c) for c in taken[:8]] + [to_retry(c) for c in taken[8:16]], POLICY)
    count("next due", claims.claim, worker, [(lane.lane, size)], lambda candidate, now: False)
    count("status", batches.get, account, batch.id, API)
    count("list", batches.page, account, API, limit=1)
    count("results", results.piece, batch, batch.first_number, batch.first_number + 9, max_rows=10, max_bytes=1 << 20)
    count("unfinished", admission.unfinished, account, besides=batch.id)
    count("due to expire", sweeps.due_to_expire, 10)
    count("cancel", batches.cancel, account, batch.id, API, POLICY)
    database.now += DAY
    count("expire", ending.expire, made[-1].id, POLICY)
    database.now -= DAY
    return steps


async def test_a_hundred_thousand_unfinished_requests_cost_no_more_steps_than_a_few_hundred(tmp_path):
    steps = []
    for size in (50, 50_000):
        store = await open_sqlite(tmp_path / f"{size}.db", migrations=migrate.core(), exclusive=True, clock=lambda: NOW)
        await store.aclose()
        database = Database(tmp_path / f"{size}.db")
        steps.append(measured(database, size, 2))
        database.connection.close()
    few, many = steps
    slower = {name: (few[name], many[name]) for name in few if many[name] > 1.1 * few[name] + 20}
    assert not slower


async def test_finding_the_next_retry_does_not_read_those_that_wait(database):
    """A lane of which every request waits for a retry is asked for its next one again and again."""
    *_, worker = settle(database, 5_000)
    ((lane,), _) = database.run(claims.candidates, "m")
    few = database.steps(claims.claim, worker, [(lane.lane, 1)], anyone)
    taken = database.run(claims.claim, worker, [(lane.lane, 5_000)], anyone).requests
    assert len(taken) == 4_999
    database.run(record.record, [to_retry(c, 60.0) for c in taken], POLICY)
    assert database.steps(claims.claim, worker, [(lane.lane, 1)], anyone) < 1.2 * few
