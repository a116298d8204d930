"""The console in a real browser: Chromium before a real daemon, a model server and a webhook's receiver.

A browser and a daemon for each file: Playwright keeps an event loop in the thread while its browser is open, which tests of
other folders must not meet.
"""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "sdk"))  # for `sdks`, which keeps npm's packages

import browsing
import stands


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def chromium(needs):
    with browsing.chromium(needs("chromium")) as browser:
        yield browser


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    with stands.stand(tmp_path_factory.mktemp("console")) as stand:
        yield stand


@pytest.fixture
def user(stand):
    """An account of its own."""
    return stand.account("ada")


@pytest.fixture(scope="module")
def kept_window(chromium):
    with browsing.window(chromium) as window:
        yield window


@pytest.fixture
def window(kept_window):
    """A browser without cookies; at the end nothing may have gone wrong in its page."""
    yield kept_window
    kept_window.forget()


@pytest.fixture
def page(window, stand, user):
    """The console, with the user signed in."""
    window.sign_in(stand, user)
    return window.open(stand)
