"""A daemon that is told something before it has finished starting, or while it stops."""

import gc
import signal

import pytest
from structlog.testing import capture_logs

from fibatchd import daemon, plugin_loader, systemd
from fibatchd.store.measured import MeasuredStore
from fibatchd.store.opening import open_store
from fibatchd.upstream.fleet import Fleet


async def each(numbers):
    for number in numbers:
        yield number


@pytest.fixture
def unfrozen():
    yield
    gc.unfreeze()  # a daemon freezes what its process has loaded, which here is the tests' process


async def run(tmp_path, *signals):
    """Run a daemon that gets these signals as soon as it heeds any; return what it logged and the URLs it told."""
    path = tmp_path / "fibatchd.toml"
    path.write_text(f'[server]\nlisten = ["127.0.0.1:0"]\ndata_dir = "{tmp_path}"\n[metrics]\nlisten = ""\n')
    plugins, told = plugin_loader.load(), []
    settings = daemon.read_config(path, plugins)
    url, migrations = settings.storage.url, plugins.migrations()
    async with open_store(url, tmp_path, migrations=migrations, exclusive=True) as opened:
        store = MeasuredStore(opened)
        context = daemon.compose(settings, store, Fleet(), plugins)
        with capture_logs() as lines:
            await daemon.Daemon(path, plugins, context, store, told.append).run(each(signals))
    return [line["event"] for line in lines], told


async def test_it_never_says_that_it_is_ready(tmp_path, unfrozen):
    assert await run(tmp_path, signal.SIGTERM) == (["stopping", "stopped"], [])


async def test_a_reload_does_not_say_that_it_serves_before_it_does(tmp_path, unfrozen, monkeypatch):
    sent = []
    monkeypatch.setattr(systemd, "notify", lambda *states: sent.append(states))
    monkeypatch.setattr(daemon.log, "configure", lambda *_: None)  # it would take the captured log away
    events, _ = await run(tmp_path, signal.SIGHUP, signal.SIGTERM)
    assert "reloaded" in events
    assert sent[0][0] == "STOPPING=1" or sent[0][1].startswith("STATUS=Serving http://127.0.0.1:")


async def test_what_stops_is_not_reloaded(tmp_path, unfrozen, monkeypatch):
    sent = []
    monkeypatch.setattr(systemd, "notify", lambda *states: sent.append(states[0]))
    events, _ = await run(tmp_path, signal.SIGTERM, signal.SIGHUP)
    assert events == ["stopping", "stopped"]
    assert not {"READY=1", "RELOADING=1"} & set(sent)
