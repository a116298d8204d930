"""What SQLite does for the statements of the account API and the admin API: an index for each, and lists sorted by one."""

from dataclasses import replace
from functools import partial

from plans import NOW, scans, settle
from scenario import POLICY, anyone, failed, succeeded, to_retry

from fibatchd.ids import new_id
from fibatchd.store import claims, drains, operations, overview, progress, record, requests, usage
from fibatchd.store.interface import Insert
from fibatchd.store.overview import Filter

SMALL = (
    "SCAN ranked",
    "SCAN drained_models",
    "SCAN daemons",
    "INDEX requests_leased",
    "INDEX batches_unfinished",
    "INDEX lanes_work",
)


def scenes(database):
    """Run every script that a page polls; yield each one's name afterwards."""
    owner, _, (batch, other), worker = settle(database, 20, 2)
    account = owner.account.id
    lanes, _ = database.run(claims.candidates, "m")
    taken = database.run(claims.claim, worker, [(lanes[0].lane, 4)], anyone).requests
    database.run(record.record, [succeeded(taken[0]), failed(taken[1]), to_retry(taken[2])], POLICY)
    database.statements.clear()
    table = partial(requests.page, replace(batch, failed=1), after=-1, limit=10, max_answer=1000)
    scripts = {
        "list": partial(overview.page, account, Filter(), after=None, limit=20),
        "list on": partial(overview.page, account, Filter(("failed",), None, "m"), after=batch.id, limit=20),
        "find": partial(overview.find, account, batch.id),
        "models": partial(overview.models_of, [batch.id, other.id]),
        "lanes": partial(overview.waiting_lanes, [batch.id, other.id]),
        "reruns": partial(overview.reruns_of, batch.id),
        "errors": partial(progress.errors, batch),
        "slices": partial(progress.slices, batch, NOW, 60.0, 10),
        "lately": partial(progress.ended_since, batch, NOW - 60),
        "rows": partial(table, None),
        "failed rows": partial(table, ["failed"]),
        "one": partial(requests.one_of, batch, 3, 1000),
        "again": partial(requests.submitted, batch, ["failed"], 1, max_rows=10, max_bytes=1000),
        "usage": partial(usage.usage, account, 30),
        "usage of all": partial(usage.usage, None, 30),
        "a day": partial(usage.by_account, "2026-11-18", after="", limit=10),
        "operations": operations.operations,
        "account": partial(operations.account, account),
        "accounts": partial(operations.accounts, after=None, limit=10, statuses=None, text=None),
        "drain": partial(drains.drain, "m"),
        "undrain": partial(drains.undrain, "m"),
    }
    for name, script in scripts.items():
        database.run(script)
        yield name


async def test_no_statement_reads_a_table_through(database):
    explained = 0
    for name in scenes(database):
        for sql, plan in database.plans():
            # Accounts are listed by their primary key, as far as the page goes.
            found = [
                line for line in scans(plan) if not any(small in line for small in SMALL) and "SCAN a USING" not in line
            ]
            assert not found, f"{name}: {sql}\n" + "\n".join(plan)
            explained += 1
    assert explained > 35


async def test_the_list_comes_sorted_out_of_its_index(database):
    owner, *_ = settle(database, 2, 2)
    database.statements.clear()
    database.run(overview.page, owner.account.id, Filter(), after=None, limit=20)
    ((_, plan),) = database.plans()
    assert any("batches_recent" in line for line in plan)
    assert not any("TEMP B-TREE" in line for line in plan)


def fill(owner, count):
    """Store so many ended batches; return their ids."""
    ids = [new_id(("batch_", "msgbatch_")[number % 2]) for number in range(count)]
    columns = (
        "id",
        "api",
        "source",
        "account_id",
        "key_id",
        "endpoint",
        "status",
        "created_at",
        "expires_at",
        "ended_at",
    )
    account, key = owner.account.id, owner.key.id
    rows = [(id_, "batches", "inline", account, key, "/v1/x", "completed", NOW, NOW, NOW) for id_ in ids]
    yield Insert("batches", columns, rows)
    return ids


async def test_a_page_costs_no_more_in_an_account_with_many_batches(database):
    owner, *_ = settle(database, 1)
    first, steps = None, []
    for count in (50, 2000):
        ids = database.run(fill, owner, count)
        first = first or ids[40]
        page = partial(database.steps, overview.page, owner.account.id, Filter(), limit=20)
        steps += [page(after=after) for after in (ids[40], first)]
    assert max(steps) - min(steps) < 50
