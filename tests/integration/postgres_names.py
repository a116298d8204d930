"""A PostgreSQL store as the tests of its faults open it, and scripts that put names into it and read them again."""

import contextlib

from fibatchd.store import migrate
from fibatchd.store.interface import Notify, Query
from fibatchd.store.postgres import open_postgres
from fibatchd.store.postgres_connections import Server


def put(name):
    yield Query("INSERT INTO sequences (name, next) VALUES (?, 0)", (name,))
    yield Notify("put", name)
    return name


def names():
    return {name for (name,) in (yield Query("SELECT name FROM sequences WHERE next = 0"))}


def query(sql, *params):
    return (yield Query(sql, params))


@contextlib.asynccontextmanager
async def opened(url, *, statement_timeout_s=30, **more):
    server = Server(url, statement_timeout_s=statement_timeout_s)
    async with open_postgres(server, migrations=migrate.core(), **more) as store:
        yield store
