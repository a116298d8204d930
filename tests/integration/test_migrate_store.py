"""`fibatchd migrate-store`: all rows of all tables go over, both ways, and work goes on where it stood."""

import databases
import pytest
import trio
from click.testing import CliRunner

from fibatchd.cli import migrate_store
from fibatchd.domain.accounts import secret_hash
from fibatchd.domain.requests import Failure, NewRequest, Outcome, Usage
from fibatchd.errors import StoreError
from fibatchd.ids import new_id
from fibatchd.store import accounts, admission, claims, leases, migrate, moving, record
from fibatchd.store.ending import Policy
from fibatchd.store.interface import Query
from fibatchd.store.opening import open_store

POLICY = Policy(86_400, 86_400)
BODIES = [b'{"n":%d}' % n + b" " * (7 * n % 5000) for n in range(1500)]


def plugin_tables():
    text = {
        "sqlite": "CREATE TABLE a_notes (id INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB, note TEXT, at REAL, "
        "parent TEXT REFERENCES z_parents (id), PRIMARY KEY (part, id)) STRICT;\n"
        "CREATE TABLE z_parents (id TEXT PRIMARY KEY) STRICT;\n",
        "postgresql": "CREATE TABLE z_parents (id TEXT PRIMARY KEY);\n"
        "CREATE TABLE a_notes (id BIGINT NOT NULL, part INTEGER NOT NULL, data BYTEA, note TEXT, at DOUBLE PRECISION, "
        "parent TEXT REFERENCES z_parents (id), PRIMARY KEY (part, id));\n",
    }
    return migrate.Migration("notes", 1, text)


def opened(url, folder):
    return open_store(url, folder, migrations=[*migrate.core(), plugin_tables()], exclusive=True)


def of_core(url, folder):
    return open_store(url, folder, migrations=migrate.core(), exclusive=True)


def rows_of(table):
    return sorted((yield Query(f"SELECT {', '.join(table.columns)} FROM {table.name}")), key=repr)


async def contents(store):
    tables = await store.read(moving.tables, store.dialect)
    return {table.name: await store.read(rows_of, table) for table in tables}


async def fill(store):
    """A batch half done, a key, a plugin's rows. Returns the key's secret."""
    account = await store.write(accounts.create_account, "ada", "internal")
    key, secret = await store.write(accounts.create_key, account.id, models=["m"])
    new = admission.NewBatch(new_id("batch_"), "batches", "inline", account.id, key.id, "/v1/chat/completions", 86_400)
    await store.write(admission.insert, new, "staging")
    reserved = await store.write(admission.reserve, new.id, ["m"], len(BODIES))
    await store.write(
        admission.append, reserved, 0, [NewRequest(f"r\u2028{n}", "m", body) for n, body in enumerate(BODIES)]
    )
    limits = admission.Limits(10, 10_000)
    await store.write(admission.publish, new, reserved, {"m": len(BODIES)}, 0, limits, POLICY, None)
    daemon = await store.write(leases.register, "one")
    claim = await store.write(claims.claim, daemon, [(reserved.lanes["m"], 20)], lambda *_: True)
    done = [Outcome(c, new_id("req_"), (200, c.body), usage=Usage(3, 1, 2, 0), cost=5) for c in claim.requests[:10]]
    failed = [Outcome(c, new_id("req_"), failure=Failure("upstream_error", "ä", 502)) for c in claim.requests[10:15]]
    await store.write(record.record, done + failed, POLICY)
    await store.write(_notes)
    return secret


def _notes():
    yield Query("INSERT INTO z_parents (id) VALUES ('ä'), ('z'), ('B')")
    for n in range(40):
        values = (n % 7, n, bytes([n]) * n if n % 3 else None, None if n % 2 else "\U0001f600", n / 3, "äzB"[n % 3])
        yield Query("INSERT INTO a_notes (id, part, data, note, at, parent) VALUES (?, ?, ?, ?, ?, ?)", values)


async def test_everything_moves_and_work_goes_on(empty_postgres, tmp_path):
    async with opened("sqlite:a.db", tmp_path) as source, opened(empty_postgres, tmp_path) as target:
        secret = await fill(source)
        sums = await migrate_store.move(source, target)
        before = await contents(source)
        assert await contents(target) == before
        assert {table.name: total.rows for table, total in sums.items()} == {k: len(v) for k, v in before.items()}
        assert sum(total.rows for total in sums.values()) > 3000
        (found, _, _) = await target.read(accounts.authenticate, secret_hash(secret))
        assert found.name == "ada"
        daemon = await target.write(leases.register, "two")
        assert daemon > 1
        ((candidate,), _) = await target.read(claims.candidates, "m")
        claim = await target.write(claims.claim, daemon, [(candidate.lane, 2000)], lambda *_: True)
        assert [c.body for c in sorted(claim.requests, key=lambda c: c.number)] == BODIES[20:]
    async with opened("sqlite:back.db", tmp_path) as back, opened(empty_postgres, tmp_path) as source:
        with pytest.raises(StoreError, match="daemon works"):
            await migrate_store.move(source, back)
        await source.write(_query, "UPDATE daemons SET deadline = 0")
        await migrate_store.move(source, back)
        assert await contents(back) == await contents(source)


def _query(sql):
    return (yield Query(sql))


async def test_a_target_that_has_rows_is_refused(postgres_url, tmp_path):
    async with of_core("sqlite:a.db", tmp_path) as source, of_core(postgres_url, tmp_path) as target:
        await target.write(accounts.create_account, "ada", "free")
        with pytest.raises(StoreError, match="accounts has rows"):
            await migrate_store.move(source, target)
        await target.write(_query, "DELETE FROM accounts")
        await target.write(_query, "UPDATE sequences SET next = 2 WHERE name = 'lanes'")
        with pytest.raises(StoreError, match="sequences has rows"):
            await migrate_store.move(source, target)


async def test_tables_that_the_target_has_not_are_told(tmp_path):
    async with opened("sqlite:a.db", tmp_path) as source, of_core("sqlite:b.db", tmp_path) as target:
        with pytest.raises(StoreError, match="z_parents, a_notes"):
            await migrate_store.move(source, target)


@pytest.mark.parametrize("loss", ["row", "byte"])
async def test_what_does_not_arrive_whole_is_noticed(tmp_path, monkeypatch, loss):
    put = moving._put

    def spoilt(table, rows):
        if table.name == "results":
            index = table.columns.index("body")
            last = [*rows[-1]]
            last[index] = b"?" + last[index][1:]
            rows = [*rows[:-1], *([tuple(last)] if loss == "byte" else [])]
        return put(table, rows)

    async with opened("sqlite:a.db", tmp_path) as source, opened("sqlite:b.db", tmp_path) as target:
        await fill(source)
        monkeypatch.setattr(moving, "_put", spoilt)
        with pytest.raises(StoreError, match="results differs"):
            await migrate_store.move(source, target)


def test_the_command(postgres_url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = f"sqlite:{tmp_path}/a.db"

    async def prepare():
        async with of_core(source, tmp_path) as store:
            await store.write(accounts.create_account, "ada", "free")

    trio.run(prepare)
    runner = CliRunner()
    absent = runner.invoke(migrate_store.command, ["--from", "sqlite:absent.db", "--to", postgres_url])
    assert isinstance(absent.exception, StoreError)
    moved = runner.invoke(migrate_store.command, ["--from", source, "--to", postgres_url])
    assert moved.exit_code == 0, moved.output
    heading, *lines = [line.split() for line in moved.stdout.splitlines()]
    assert heading == ["table", "rows", "checksum"]
    assert {table: rows for table, rows, _checksum in lines}["accounts"] == "1"
    assert "verifying" in moved.stderr
    assert len(trio.run(databases.administer, postgres_url, "SELECT id FROM accounts")) == 1
    again = runner.invoke(migrate_store.command, ["--from", source, "--to", postgres_url])
    assert isinstance(again.exception, StoreError)
