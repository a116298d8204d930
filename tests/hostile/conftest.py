"""One daemon for all hostile input, with everything switched on: what one test sends must not harm the next."""

import daemons
import pytest
from hostile_site import open_site


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    with daemons.closing_all() as processes:
        site = open_site(tmp_path_factory.mktemp("hostile"), processes)
        yield site
        site.upstream.close()


@pytest.fixture(autouse=True)
def unharmed(request):
    """After each test that used the site: it still runs, nothing of it was a fault of its own, and it serves."""
    yield
    if "site" in request.fixturenames:
        request.getfixturevalue("site").check()
