"""What tests of every kind use: a PostgreSQL, and new databases on it."""

import secrets

import pytest


@pytest.fixture(scope="session")
def postgres_server():
    """The URL of a server on which databases may be made."""
    import databases

    with databases.any_server() as url:
        yield url


@pytest.fixture
async def empty_postgres(postgres_server):
    """The URL of a new database without tables."""
    import databases

    name = f"fibatchd_test_{secrets.token_hex(8)}"
    await databases.administer(postgres_server, f"CREATE DATABASE {name}")
    yield databases.database_url(postgres_server, name)
    await databases.administer(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def postgres_url(postgres_server):
    """The URL of a new database that has the core's schema."""
    import databases

    name = f"fibatchd_test_{secrets.token_hex(8)}"
    template = await databases.template(postgres_server)
    await databases.administer(postgres_server, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield databases.database_url(postgres_server, name)
    await databases.administer(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")
