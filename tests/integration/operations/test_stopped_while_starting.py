"""A daemon that is told to stop before it has finished starting."""

import gc
import signal

import pytest
from structlog.testing import capture_logs

from fibatchd import daemon, plugin_loader
from fibatchd.store.measured import MeasuredStore
from fibatchd.store.opening import open_store
from fibatchd.upstream.fleet import Fleet


async def once(number):
    yield number


@pytest.fixture
def unfrozen():
    yield
    gc.unfreeze()  # a daemon freezes what its process has loaded, which here is the tests' process


async def test_it_never_says_that_it_is_ready(tmp_path, unfrozen):
    path = tmp_path / "fibatchd.toml"
    path.write_text(f'[server]\nlisten = ["127.0.0.1:0"]\ndata_dir = "{tmp_path}"\n[metrics]\nlisten = ""\n')
    plugins, told = plugin_loader.load(), []
    settings = daemon.read_config(path, plugins)
    url, migrations = settings.storage.url, plugins.migrations()
    async with open_store(url, tmp_path, migrations=migrations, exclusive=True) as opened:
        store = MeasuredStore(opened)
        context = daemon.compose(settings, store, Fleet(), plugins)
        with capture_logs() as lines:
            await daemon.Daemon(path, plugins, context, store, told.append).run(once(signal.SIGTERM))
    assert [line["event"] for line in lines] == ["stopping", "stopped"]
    assert told == []
