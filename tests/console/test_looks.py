"""Every view, narrow and wide, light and dark: nothing cut, nothing over something else, and axe finds nothing.

`make screenshots` takes the pictures of the same states.
"""

import pytest
import sdks
from furnished import furnish
from states import WIDTHS, complaints, visit

AXE_RELEASE = "4.14.1"


@pytest.fixture(scope="module")
def axe(needs):
    folder = sdks.node_modules_with(needs("npm"), "axe-core", AXE_RELEASE)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def furnished(stand):
    return furnish(stand)


@pytest.mark.parametrize("width", WIDTHS)
def test_views(chromium, furnished, axe, width):
    wrong = []
    for state, page in visit(chromium, furnished, width):
        wrong += [f"{state.name}: {what}" for what in complaints(page, axe)]
    assert wrong == [], "\n".join(wrong)
