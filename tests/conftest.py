"""What tests of every kind use: a PostgreSQL, and databases on it."""

import pytest
import trio


@pytest.fixture(scope="session")
def postgres_server():
    """The URL of a server on which databases may be made."""
    import databases

    with databases.any_server() as url:
        yield url


@pytest.fixture
def empty_postgres(postgres_server):
    """The URL of a new database without tables; for tests that need no more than the core's, `postgres_url` is faster."""
    import databases

    with databases.new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server):
    """The URL of a database that has the core's schema and nothing else."""
    import databases

    with databases.new_database(postgres_server) as url:
        trio.run(databases.migrate_core, url)
        yield url


@pytest.fixture
def postgres_url(migrated_postgres):
    """The URL of a database that has the core's schema and no rows. Do not migrate it further."""
    import databases

    yield migrated_postgres
    trio.run(databases.wipe, migrated_postgres)
