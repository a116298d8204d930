"""What tests of every kind use: a PostgreSQL, and databases on it; programs beyond Python."""

import functools
import os
import shutil
from collections import Counter
from pathlib import Path

import httpcore2
import hypothesis
import pytest
import trio

HERE = Path(__file__).parent

# A client reads the system's certificates when it is made, which takes 25 ms; most tests speak plain HTTP.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

# Whether a change is sound is not to hang on luck: hypothesis tries the same examples each time, for as long as they take on a
# machine that has other things to do. `make torture` tries others.
hypothesis.settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
hypothesis.settings.register_profile("random", max_examples=2000, deadline=None)
hypothesis.settings.load_profile("fixed")

REQUIRE_ALL = os.environ.get("FIBATCHD_REQUIRE_ALL") == "1"
BRIEF = ("rules", "unit")
"""Folders whose files take seconds at most; elsewhere tests wait for processes, sockets and databases."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Two workers for each processor: half of the time a test waits for another process."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Files that take long come first, so that no worker is left with one when the others are done."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    folder = {item.path: item.path.relative_to(HERE).parts[0] for item in items}
    begins = {item.path for item in items if item.get_closest_marker("begins")}
    # Stable: files stay whole.
    items.sort(key=lambda item: (item.path not in begins, folder[item.path] in BRIEF, -slow[item.path]))


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


@pytest.fixture(scope="session")
def needs():
    """A function that returns the path of a program, and skips the test where there is none."""

    def find(program):
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is not installed")
        return path

    return find


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where everything is required, as in continuous integration, a test that was skipped has failed."""
    report = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"FIBATCHD_REQUIRE_ALL=1 allows no skip: {call.excinfo.value}"
    return report
