"""What a right configuration comes out as: values, defaults, the environment, tiers, keys and prices."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
import trustme

from fibatchd.config import Batches, Capabilities, Config, Price, Tier, load, parse, plugin_dir
from fibatchd.errors import ConfigError
from fibatchd.money import PICO

CONFIG_DIR = Path(__file__).parents[2] / "config"
UPSTREAM = '[[models.upstreams]]\nurl = "http://h/v1"\n'

SITE = """
[server]
listen = ["127.0.0.1:${PORT}", "[::1]:${PORT}", "unix:/run/fibatchd.sock", "fd://", "fd://http", ":80"]
public_url = "http://localhost:${PORT}/"
data_dir = "${DIR}"
drain_s = 10
trusted_proxies = ["10.0.0.0/8", "::1", "unix:"]
[storage]
url = "${STORE}"
[extensions]
files = true
console = false
[batches]
enabled = true
create_tiers = ["internal", "admin", "pro"]
max_requests = 7
retry_base_s = 0.05
retry_cap_s = 1
[hooks]
allow_private_addresses = true
[tiers.free]
daily_quota_usd = "1.00"
[tiers.pro]
batch_concurrency = 3
daily_quota_usd = 20
[tiers.students]
interactive_concurrency = 2
[[models]]
id = "big"
aliases = ["large"]
endpoints = ["/v1/chat/completions", "/v1/messages"]
concurrency = 32
capacity = 64
reserve = 4
price_usd_per_million = { input = "0.10", cached_input = "0.02", output = "0.40" }
[models.capabilities]
images = true
[[models.upstreams]]
url = "${UP}/v1/"
protocol = "openai"
endpoints = ["/v1/chat/completions"]
model = "org/big"
api_key_env = "UP_KEY"
timeout_s = 30
headers = { X-Team = "batch" }
[[models.upstreams]]
url = "http+unix://%2Frun%2Fvllm.sock/v1"
weight = 0.5
[[models]]
id = "inner"
tiers = ["internal", "admin"]
price_usd_per_million = { input = 1 }
upstreams = [{ url = "${UP}", protocol = "anthropic", endpoints = ["/v1/messages"] }]
"""
ENVIRON = {
    "PORT": "8787",
    "DIR": "/data",
    "STORE": "postgresql://u:pw@db/f",
    "UP": "http://up:8000",
    "UP_KEY": "sk-1\n",
}


@pytest.fixture
def site():
    return parse(SITE, plugin_schemas={"hooks": {"type": "object"}, "other": {}}, environ=ENVIRON)


def test_server_and_storage(site):
    assert site.server.listen == (
        "127.0.0.1:8787",
        "[::1]:8787",
        "unix:/run/fibatchd.sock",
        "fd://",
        "fd://http",
        ":80",
    )
    assert site.server.public_url == "http://localhost:8787"
    assert site.server.data_dir == Path("/data")
    assert site.server.drain_s == 10
    assert site.server.trusted_proxies == ("10.0.0.0/8", "::1", "unix:")
    assert site.storage.url == "postgresql://u:pw@db/f"


def test_switches_and_plugin_tables(site):
    assert site.is_on("files")
    assert not site.is_on("console")
    assert not site.is_on("never-named")
    assert site.plugin_tables == {"hooks": {"allow_private_addresses": True}, "other": {}}


def test_batches(site):
    expected = Batches(create_tiers=("internal", "admin", "pro"), max_requests=7, retry_base_s=0.05, retry_cap_s=1)
    assert site.batches == expected


def test_tiers_override_defaults_field_by_field(site):
    assert site.tiers == {
        "free": Tier(name="free", batch_concurrency=8, daily_quota=PICO),
        "pro": Tier(name="pro", batch_concurrency=3, daily_quota=20 * PICO),
        "internal": Tier(name="internal", batch_concurrency=64),
        "admin": Tier(name="admin", batch_concurrency=64),
        "students": Tier(name="students", batch_concurrency=8, interactive_concurrency=2),
    }


def test_models(site):
    big, inner = site.models
    assert (big.concurrency, big.capacity, big.reserve) == (32, 64, 4)
    assert big.endpoints == ("/v1/chat/completions", "/v1/messages")
    assert big.capabilities == Capabilities(images=True)
    assert big.price == Price(input=100_000, cached_input=20_000, output=400_000)
    assert inner.price == Price(input=10**6, cached_input=10**6, output=0)
    assert big.is_open_to("free")
    assert inner.is_open_to("admin")
    assert not inner.is_open_to("free")


def test_models_are_found_by_id_and_alias(site):
    big, inner = site.models
    assert (site.find_model("big"), site.find_model("large"), site.find_model("inner")) == (big, big, inner)
    assert site.find_model("org/big") is None


def test_upstreams(site):
    first, second = site.models[0].upstreams
    assert first.url == "http://up:8000/v1"
    assert first.endpoints == ("/v1/chat/completions",)
    assert (first.model, first.api_key, first.timeout_s, first.headers) == ("org/big", "sk-1", 30, {"X-Team": "batch"})
    assert second.url == "http+unix://%2Frun%2Fvllm.sock/v1"
    assert second.endpoints == site.models[0].endpoints
    assert (second.model, second.api_key, second.protocol, second.timeout_s) == ("big", None, "openai", 600)
    assert second.weight == 0.5
    (inner,) = site.models[1].upstreams
    assert (inner.url, inner.protocol, inner.model) == ("http://up:8000", "anthropic", "inner")


def test_no_secret_in_repr(site):
    assert "sk-1" not in repr(site)
    assert "pw" not in repr(site)
    assert "X-Team" not in repr(site)


def test_it_is_frozen(site):
    with pytest.raises(FrozenInstanceError):
        site.batches.max_requests = 1
    with pytest.raises(TypeError):
        site.tiers["free"] = None
    with pytest.raises(TypeError):
        site.extensions["files"] = False


def test_no_file_is_all_defaults():
    config = load(None, environ={})
    assert config == Config()
    assert config.models == ()
    assert (config.server.data_dir, config.storage.url) == (Path("fibatchd-data"), "sqlite:fibatchd.db")


def test_the_defaults_are_the_documented_limits():
    batches = Config().batches
    assert batches.create_tiers == ("internal", "admin")
    assert batches.max_requests == 50_000
    assert batches.max_body_bytes == 32 * 1024 * 1024
    assert batches.max_line_bytes == 4 * 1024 * 1024
    assert batches.max_result_bytes == 4 * 1024 * 1024
    assert batches.max_unfinished_batches == 10
    assert batches.max_unfinished_requests == 100_000
    assert batches.completion_window_s == 24 * 3600
    assert batches.retention_s == 7 * 24 * 3600
    assert batches.input_file_retention_s == 30 * 24 * 3600
    assert batches.max_file_storage_bytes == 512 * 1024 * 1024
    assert batches.max_uploads_per_hour == 60
    assert batches.idempotency_retention_s == 24 * 3600
    assert batches.max_attempts == 8
    assert (batches.retry_base_s, batches.retry_factor, batches.retry_cap_s, batches.retry_after_cap_s) == (
        2,
        2,
        300,
        600,
    )
    assert {tier.name: tier.batch_concurrency for tier in Config().tiers.values()} == {
        "free": 8,
        "pro": 16,
        "internal": 64,
        "admin": 64,
    }
    assert all(tier.daily_quota is None and tier.interactive_concurrency is None for tier in Config().tiers.values())
    server = Config().server
    assert (server.drain_s, server.max_buffered_body_bytes, server.header_timeout_s, server.keep_alive_s) == (
        60,
        64 * 2**20,
        10,
        75,
    )
    assert server.max_failed_keys_per_minute == 60
    assert Config().storage.min_free_bytes == 2**30


def test_state_directory_under_systemd():
    assert parse("", environ={"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}).server.data_dir == Path("/var/lib/a")
    assert parse("[server]\ndata_dir = 'd'", environ={"STATE_DIRECTORY": "/s"}).server.data_dir == Path("d")


def test_storage_url_is_kept_to_the_letter():
    assert parse("[storage]\nurl = 'postgresql:///'").storage.url == "postgresql:///"


def test_variables_expand_in_any_string_and_only_once():
    environ = {"A": "${B}", "B": "wrong"}
    config = parse(
        f"[server]\ndata_dir = 'x${{A}}y${{A}}'\n[[models]]\nid = 'm'\n{UPSTREAM}model = '$A {{A}} ${{A}}'",
        environ=environ,
    )
    assert config.server.data_dir == Path("x${B}y${B}")
    assert config.models[0].upstreams[0].model == "$A {A} ${B}"


def test_keys_from_files(tmp_path):
    key = tmp_path / "key"
    key.write_text("sk-file\n")
    text = f"[[models]]\nid = 'm'\n{UPSTREAM}api_key_file = '${{CREDENTIALS_DIRECTORY}}/key'"
    config = parse(text, environ={"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert config.models[0].upstreams[0].api_key == "sk-file"
    key.write_text("two words")
    with pytest.raises(ConfigError, match="does not hold a key"):
        parse(text, environ={"CREDENTIALS_DIRECTORY": str(tmp_path)})


def test_certificates(tmp_path):
    authority = trustme.CA()
    certificate, stranger = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    stranger.private_key_pem.write_to_path(tmp_path / "other.pem")
    text = """
        server = { tls_cert = "${DIR}/cert.pem", tls_key = "${DIR}/key.pem" }
        [[models]]
        id = "m"
        upstreams = [{ url = "https://h/v1", ca_file = "${DIR}/ca.pem" }]
    """
    config = parse(text, environ={"DIR": str(tmp_path)})
    assert (config.server.tls_cert, config.server.tls_key) == (tmp_path / "cert.pem", tmp_path / "key.pem")
    assert config.models[0].upstreams[0].ca_file == tmp_path / "ca.pem"
    with pytest.raises(ConfigError, match="tls_key is not its key"):
        parse(text.replace("key.pem", "other.pem"), environ={"DIR": str(tmp_path)})


def test_a_command_that_only_opens_the_store_needs_nothing_of_the_daemons():
    text = """
        server = { data_dir = "/d", listen = ["h:${NO}"], tls_cert = "/no/cert", tls_key = "${NO}/key", plugin_dir = "/no" }
        hooks.url = "${NO}"
        [[models]]
        id = "m"
        upstreams = [{ url = "${NO}/v1", api_key_file = "${NO}/key" }, { url = "http://h/v1", api_key_env = "NO" }]
    """
    hooks = {"hooks": {"properties": {"url": {"pattern": "^https:"}}}}
    config = parse(text, plugin_schemas=hooks, environ={}, store_only=True)
    assert config.find_model("m") is not None
    assert config.server.data_dir == Path("/d")
    with pytest.raises(ConfigError) as caught:
        parse(text, plugin_schemas=hooks, environ={})
    assert len(caught.value.problems) == 8


@pytest.mark.parametrize(
    "setting",
    [
        "server = {data_dir = '${NO}'}",
        "storage = {url = 'sqlite:${NO}'}",
        "tiers.x.daily_quota_usd = '${NO}'",
        "[[models]]\nid = '${NO}'\nupstreams = [{url = 'echo:'}]",
    ],
)
def test_such_a_command_needs_what_it_reads(setting):
    with pytest.raises(ConfigError, match="the environment variable NO is not set"):
        parse(setting, environ={}, store_only=True)


def test_plugin_dir_alone(tmp_path):
    file = tmp_path / "f.toml"
    for text, folder in [
        (f"[server]\nplugin_dir = '{tmp_path}'\n[unknown]\n", tmp_path),
        ("", None),
        ("server = 1", None),
        ("server.plugin_dir = '${NO}'", None),
    ]:
        file.write_text(text)
        assert plugin_dir(file, environ={}) == folder
    assert plugin_dir(None) is None


def test_byte_order_mark(tmp_path):
    file = tmp_path / "f.toml"
    file.write_bytes(b"\xef\xbb\xbf[log]\nlevel = 'debug'\n")
    assert load(file).log.level == "debug"


def test_demo():
    config = load(CONFIG_DIR / "demo.toml", environ={})
    (model,) = config.models
    assert model.upstreams[0].is_echo
    assert model.upstreams[0].delay_s > 0
    assert model.price is not None
    assert set(config.batches.create_tiers) == set(config.tiers)
