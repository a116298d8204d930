"""PostgreSQL in trouble, as a daemon meets it: gone, restarted, silent, full, read-only. What was acknowledged is stored,
what was refused is not, no call hangs, and the same store works on when the server does."""

import random

import databases
import pytest
import trio
from postgres_names import names, opened, put, query
from postgres_proxy import open_proxy

from fibatchd.errors import StoreError, StoreTooNew, StoreUnavailable, StoreUncertain
from fibatchd.store import migrate, postgres, postgres_connections, postgres_listening
from fibatchd.store.interface import NOW, Query
from fibatchd.store.postgres import open_postgres
from fibatchd.store.postgres_connections import Server


@pytest.fixture
async def proxy(postgres_url):
    async with open_proxy(postgres_url) as between:
        yield between


@pytest.fixture
def impatient(monkeypatch):
    """All waits for a database that does not answer are short."""
    monkeypatch.setattr(postgres_connections, "GRACE_S", 0.1)
    monkeypatch.setattr(postgres_connections, "CONNECT_S", 0.3)
    monkeypatch.setattr(postgres_connections, "ACQUIRE_S", 0.5)
    monkeypatch.setattr(postgres_connections, "CLOSE_S", 0.3)
    monkeypatch.setattr(postgres, "SETTLE_S", 0.5)


# A commit without an answer


@pytest.mark.parametrize("fate", ["before", "after"])
async def test_a_commit_whose_answer_is_lost_is_done_once(proxy, fate):
    async with opened(proxy.url) as store, store.listen("put") as heard:
        await store.write(put, "warm")
        proxy.lose_commit = fate
        with trio.fail_after(20):
            assert await store.write(put, "a") == "a"
        assert proxy.lost.is_set()
        assert await store.read(names) == {"warm", "a"}
        with trio.fail_after(10):
            assert [await heard.__anext__(), await heard.__anext__()] == ["warm", "a"]


async def test_the_first_commit_of_a_connection_is_looked_up_as_well(proxy):
    async with opened(proxy.url) as store:
        async with trio.open_nursery() as nursery:  # so that the next one needs a connection of its own
            proxy.cut()
            await store.write(put, "other")
            proxy.cut()
            proxy.lose_commit = "after"
            nursery.start_soon(store.write, put, "a")
        assert proxy.lost.is_set()
        assert await store.read(names) == {"other", "a"}


@pytest.mark.parametrize("fate", ["before", "after"])
async def test_a_commit_that_cannot_be_looked_up_is_uncertain_until_it_can(proxy, impatient, fate):
    async with opened(proxy.url, statement_timeout_s=1) as store:
        await store.write(put, "warm")
        proxy.lose_commit = fate

        async def freeze_then():
            await proxy.lost.wait()
            proxy.freeze()

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(freeze_then)
                with pytest.raises(StoreUncertain) as caught:
                    await store.write(put, "a")
            with pytest.raises(StoreUnavailable):
                await store.was_stored(caught.value)
        proxy.thaw()
        assert await store.was_stored(caught.value) is (fate == "after")
        assert await store.read(names) == ({"warm", "a"} if fate == "after" else {"warm"})


async def test_receipts_are_forgotten_after_a_day(postgres_url, monkeypatch):
    monkeypatch.setattr(postgres, "FORGET_S", 0.01)
    async with opened(postgres_url) as store:
        old = "INSERT INTO receipts (connection, number, written_at) VALUES (7, 1, now() - INTERVAL '25 hours')"
        await store.write(query, old)
        with trio.fail_after(20):
            while await store.read(query, "SELECT 1 FROM receipts WHERE connection = 7"):
                await trio.lowlevel.checkpoint()


# Connections that go


async def test_connections_cut_between_calls_are_replaced(proxy):
    async with opened(proxy.url) as store:
        for name in ("a", "b", "c"):
            await store.write(put, name)
            proxy.cut()
        assert await store.read(names) == {"a", "b", "c"}


async def test_a_script_whose_connection_is_killed_runs_again(postgres_url):
    async with opened(postgres_url) as store:
        runs = []

        def killed_once():
            ((pid,),) = yield Query("SELECT pg_backend_pid()")
            runs.append(pid)
            yield Query("INSERT INTO sequences (name, next) VALUES ('a', 0)")
            if len(runs) == 1:
                yield Query("SELECT pg_terminate_backend(pg_backend_pid())")
            return len(runs)

        assert await store.write(killed_once) == 2
        assert len(set(runs)) == 2
        assert await store.read(names) == {"a"}


async def test_a_script_that_kills_its_connection_each_time_is_given_up(postgres_url):
    def deadly():
        yield Query("SELECT pg_terminate_backend(pg_backend_pid())")

    async with opened(postgres_url) as store:
        with pytest.raises(StoreUnavailable):
            await store.write(deadly)
        assert await store.write(put, "a") == "a"


# A server that says nothing


async def test_a_silent_server_is_given_up_and_welcome_again(proxy, impatient):
    async with opened(proxy.url, statement_timeout_s=0.2) as store:
        await store.write(put, "a")
        proxy.freeze()
        with trio.fail_after(10):
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    await store.write(put, "b")
                with pytest.raises(StoreUnavailable):
                    await store.read(names)
        proxy.thaw()
        assert await store.write(put, "c") == "c"
        assert "b" not in await store.read(names)


async def test_closing_does_not_wait_for_a_silent_server(proxy, impatient):
    with trio.fail_after(10):
        async with opened(proxy.url) as store, store.listen("put"):
            await store.write(put, "a")
            proxy.freeze()


async def test_a_statement_that_takes_too_long_is_given_up(postgres_url):
    async with opened(postgres_url, statement_timeout_s=0.1) as store:
        with trio.fail_after(10), pytest.raises(StoreUnavailable):
            await store.write(query, "SELECT pg_sleep(60)")
        assert await store.write(put, "a") == "a"


async def test_whoever_waits_for_a_free_connection_is_told_in_time(postgres_url, impatient):
    async with opened(postgres_url, pool_size=2) as store, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(store.write, query, "SELECT 1 FROM pg_sleep(2)")
        await trio.testing.wait_all_tasks_blocked(0.1)
        with pytest.raises(StoreUnavailable, match="busy"):
            await store.write(put, "a")


# A server that refuses


async def test_no_server_is_unavailable(tmp_path):
    with pytest.raises(StoreUnavailable):
        async with opened(f"postgresql://postgres@/postgres?host={tmp_path}"):
            pass


async def test_a_read_only_database_is_unavailable_and_readable(postgres_url):
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    async with opened(postgres_url) as store:
        await store.write(put, "a")
        try:
            await databases.administer(postgres_url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            await databases.disconnect_others(postgres_url)
            with pytest.raises(StoreUnavailable):
                await store.write(put, "b")
            assert await store.read(names) == {"a"}
        finally:
            await databases.administer(
                postgres_url, "SET default_transaction_read_only = off",
                f"ALTER DATABASE {name} RESET default_transaction_read_only",
            )  # fmt: skip
        await databases.disconnect_others(postgres_url)
        assert await store.write(put, "b") == "b"


async def test_too_many_connections_are_unavailable(empty_postgres):
    name = empty_postgres.partition("?")[0].rpartition("/")[2]
    await databases.administer(
        empty_postgres, f"CREATE ROLE {name} LOGIN CONNECTION LIMIT 1", f"GRANT ALL ON SCHEMA public TO {name}"
    )
    try:
        limited = empty_postgres.replace("postgres:@", f"{name}@").replace("postgres@", f"{name}@")
        async with opened(limited) as store:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.write, query, "SELECT 1 FROM pg_sleep(1)")
                await trio.testing.wait_all_tasks_blocked(0.2)
                with pytest.raises(StoreUnavailable):
                    await store.write(put, "a")
            assert await store.write(put, "a") == "a"
    finally:
        await databases.administer(empty_postgres, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


# Listening


async def test_a_listener_hears_other_daemons_also_after_its_connection_was_lost(postgres_url, monkeypatch):
    monkeypatch.setattr(postgres_listening, "RETRY_S", 0.01)
    async with opened(postgres_url) as one, opened(postgres_url) as other, one.listen("put") as heard:
        for round_ in range(3):
            with trio.fail_after(20):
                while True:  # what is told while nobody listens is lost, as the contract has it
                    await other.write(put, f"{round_} {random.random()}")
                    with trio.move_on_after(0.1):
                        while not (await heard.__anext__()).startswith(str(round_)):
                            pass
                        break
            await databases.disconnect_others(postgres_url)


async def test_a_daemon_hears_itself_once(postgres_url):
    async with opened(postgres_url) as store, store.listen("put") as heard:
        for name in "abc":
            await store.write(put, name)
        async with opened(postgres_url) as other:
            with trio.fail_after(20):
                got = []
                while "end" not in got:
                    if (await other.read(query, _LISTENING))[0][0]:
                        await other.write(put, "end")
                    with trio.move_on_after(0.1):
                        while True:
                            got.append(await heard.__anext__())
    assert [name for name in got if name != "end"] == ["a", "b", "c"]


_LISTENING = "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"


# Opening


async def test_many_daemons_that_start_together_migrate_once(empty_postgres):
    async def start():
        async with opened(empty_postgres) as store:
            await store.write(query, "SELECT 1")

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(start)
    rows = await databases.administer(empty_postgres, "SELECT owner, version FROM migrations")
    assert rows == [(m.owner, m.version) for m in migrate.core()]


async def test_a_migration_that_fails_leaves_nothing(empty_postgres):
    bad = migrate.Migration("core", 2, {"postgresql": "CREATE TABLE half (id BIGINT);\nnonsense;"})
    with pytest.raises(StoreError):
        async with open_postgres(Server(empty_postgres), migrations=[*migrate.core(), bad]):
            pass
    assert await databases.administer(empty_postgres, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []


async def test_an_old_daemon_refuses_a_newer_database(postgres_url):
    await databases.administer(postgres_url, "INSERT INTO migrations VALUES ('core', 999, 0)")
    try:
        with pytest.raises(StoreTooNew, match="newer fibatchd"):
            async with opened(postgres_url):
                pass
    finally:
        await databases.administer(postgres_url, "DELETE FROM migrations WHERE version = 999")


async def test_the_clock_is_the_databases(postgres_url):
    def times():
        ((now,),) = yield NOW
        ((truth,),) = yield Query("SELECT EXTRACT(EPOCH FROM clock_timestamp())::DOUBLE PRECISION")
        return truth - now

    async with opened(postgres_url) as store:
        assert 0 <= await store.write(times) < 60
        assert 0 <= await store.read(times) < 60


async def test_the_password_is_read_from_its_file(postgres_url, tmp_path):
    (tmp_path / "password").write_text("not needed here\n")
    server = Server(postgres_url, tmp_path / "password")
    async with open_postgres(server, migrations=migrate.core()) as store:
        assert await store.write(put, "a") == "a"
    with pytest.raises(StoreUnavailable):
        async with open_postgres(Server(postgres_url, tmp_path / "absent"), migrations=migrate.core()):
            pass


# Values that no database takes


@pytest.mark.parametrize("value", ["secret-text", "secret\0nul", b"secret", "secret\ud800"])
async def test_a_value_that_cannot_be_stored_is_refused_and_not_told(postgres_url, value):
    sql = (
        "UPDATE sequences SET next = ?"
        if value == "secret-text"
        else "INSERT INTO sequences (name, next) VALUES (?, 0)"
    )
    async with opened(postgres_url) as store:
        with pytest.raises(StoreError) as caught:
            await store.write(query, sql, value)
        assert "secret" not in str(caught.value)
        assert await store.write(put, "a") == "a"
