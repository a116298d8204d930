"""Every view, narrow and wide, light and dark: nothing cut, nothing over something else, and axe finds nothing.

`make screenshots` takes the pictures of the same states.
"""

import pytest
import sdks
from furnished import furnish
from states import complaints, layout_at, visit

AXE_RELEASE = "4.14.1"
WIDTHS = {360: 320, 1440: 3840}
"""Those of the pictures, each with the one beyond it that must do as well: 320 is what text at 400 % leaves of 1280 (WCAG
1.4.10)."""


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
        found = complaints(page, axe) + layout_at(page, WIDTHS[width])
        wrong += [f"{state.name}: {what}" for what in found]
    assert wrong == [], "\n".join(wrong)
