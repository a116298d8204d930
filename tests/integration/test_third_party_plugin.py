"""A plugin by somebody else, in a real daemon: its endpoint in batches and directly, its route, its service, its command."""

import importlib.util
import shutil
import sys
import types
from pathlib import Path

import daemons
import pytest
from daemons import DaemonProcess, ModelServerProcess, finished, results

from fibatchd import plugin_loader
from fibatchd.errors import ConfigError, StoreError
from fibatchd.plugin_api import Migration, hookimpl
from fibatchd.testing import check_plugin

EXAMPLE = Path(__file__).parent.parent / "example_plugin" / "rerank.py"

CONFIG = """
plugin_dir = "{plugins}"
[storage]
min_free_bytes = 0
[extensions]
rerank = {on}
[rerank]
beat_s = 5
[[models]]
id = "ranker"
endpoints = ["/v1/rerank"]
price_usd_per_million = {{ input = "1" }}
[[models.upstreams]]
url = "{upstream}/v1"
model = "up"
"""


@pytest.fixture
def plugin():
    spec = importlib.util.spec_from_file_location("example_rerank", EXAMPLE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_it_keeps_what_a_daemon_relies_on(plugin):
    await check_plugin(plugin, "rerank")


async def test_folders_named_as_the_plugin_do_not_matter(plugin, tmp_path, monkeypatch):
    # Python takes them for one package, in two places.
    for place in ("a", "b"):
        (tmp_path / place / "rerank").mkdir(parents=True)
        monkeypatch.syspath_prepend(tmp_path / place)
    await check_plugin(plugin, "rerank")


async def test_a_table_that_could_not_be_moved_is_told():
    @hookimpl
    def fibatchd_migrations():
        return [
            Migration("careless", 1, dict.fromkeys(("sqlite", "postgresql"), "CREATE TABLE careless_notes (a TEXT)"))
        ]

    careless = types.ModuleType("careless")
    careless.fibatchd_migrations = fibatchd_migrations
    with pytest.raises(StoreError, match="careless_notes has no primary key"):
        await check_plugin(careless, "careless")


@pytest.mark.slow
def test_it_serves_its_endpoint_in_a_daemon(tmp_path):
    with daemons.closing_all() as processes:
        upstream = ModelServerProcess()
        processes.append(upstream)
        folder = tmp_path / "plugins"
        folder.mkdir()
        shutil.copy(EXAMPLE, folder)
        daemon = DaemonProcess(tmp_path, CONFIG.format(plugins=folder, upstream=upstream.url, on="true"))
        processes.append(daemon)
        with daemon.client(daemon.new_key()) as client:
            body = {"model": "ranker", "query": "q", "documents": ["a", "bb"]}
            direct = client.post("/v1/rerank", json=body).raise_for_status().json()
            assert direct["model"] == "ranker"
            assert [result["index"] for result in direct["results"]] == [1, 0]
            requests = [{"custom_id": str(n), "url": "/v1/rerank", "body": body} for n in range(5)]
            batch = client.post("/v1/batches", json={"requests": requests}).raise_for_status().json()
            assert batch["endpoint"] == "/v1/rerank"
            assert finished(client, batch["id"])["cost_usd"] == pytest.approx(5 * 3 / 1e6)
            assert all(found["response"]["body"]["results"] for found in results(client, batch["id"]))
            bad = client.post(
                "/v1/batches", json={"requests": [requests[0] | {"body": {"model": "ranker", "query": "q"}}]}
            )
            assert bad.status_code == 400
            assert "documents" in bad.json()["error"]["message"]
            assert client.get("/v1/rerank/tally").raise_for_status().json() == {"ended": 1}
            assert daemons.httpx2.get(f"{daemon.base}/v1/rerank/tally").status_code == 401
        assert daemon.run("rerank-accounts") == "1"


@pytest.mark.slow
def test_switched_off_its_endpoint_is_refused_in_batches(tmp_path):
    with daemons.closing_all() as processes:
        folder = tmp_path / "plugins"
        folder.mkdir()
        shutil.copy(EXAMPLE, folder)
        config = CONFIG.format(plugins=folder, upstream="http://127.0.0.1:1", on="false")
        daemon = DaemonProcess(tmp_path, config)
        processes.append(daemon)
        with daemon.client(daemon.new_key()) as client:
            body = {"model": "ranker", "query": "q", "documents": ["a"]}
            refused = client.post(
                "/v1/batches", json={"requests": [{"custom_id": "1", "url": "/v1/rerank", "body": body}]}
            )
            assert refused.status_code == 400
            assert "/v1/chat/completions" in refused.json()["error"]["message"]


class Wrong:
    """Plugins that the loader refuses, each for a reason of its own."""

    class Coroutine:
        @plugin_loader.hookspecs.hookimpl
        async def fibatchd_endpoints(self, context):
            return []

    class Unknown:
        @plugin_loader.hookspecs.hookimpl
        def fibatchd_no_such_hook(self):
            return []

    class Parameter:
        @plugin_loader.hookspecs.hookimpl
        def fibatchd_endpoints(self, surprise):
            return []

    class Wrapper:
        @plugin_loader.hookspecs.hookimpl(wrapper=True)
        def fibatchd_migrations(self):
            return (yield)


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (Wrong.Coroutine(), "plugin odd: fibatchd_endpoints must be a plain function"),
        (Wrong.Unknown(), "fibatchd_no_such_hook"),
        (Wrong.Parameter(), "surprise"),
        (Wrong.Wrapper(), "must not be a wrapper"),
    ],
)
def test_a_plugin_that_implements_a_hook_wrongly_is_refused_by_name(plugin, reason):
    with pytest.raises(ConfigError) as refused:
        plugin_loader.load(extra={"odd": plugin})
    assert any(reason in problem and "odd" in problem for problem in refused.value.problems)


def test_a_plugin_file_that_cannot_be_imported_is_named(tmp_path):
    (tmp_path / "broken.py").write_text("import no_such_module_anywhere\n")
    with pytest.raises(ConfigError, match=r"broken\.py: cannot be imported: ModuleNotFoundError"):
        plugin_loader.load(tmp_path)
