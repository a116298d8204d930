"""Each plugin that comes with fibatchd keeps what every plugin promises the daemon."""

import importlib.metadata

import pytest

from fibatchd.plugin_loader import GROUP
from fibatchd.testing import check_plugin

BUNDLED = importlib.metadata.entry_points(group=GROUP)


@pytest.mark.parametrize("entry", BUNDLED, ids=lambda entry: entry.name)
async def test_it_keeps_what_plugins_promise(entry):
    await check_plugin(entry.load(), entry.name)
