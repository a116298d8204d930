"""What a SIGHUP changes, what it leaves, and that it says so."""

import pytest

from fibatchd.config import parse, reload
from fibatchd.config.reloading import FIXED
from fibatchd.errors import ConfigError

FIXED_CHANGES = {
    "server.listen": "server.listen = ['h:2']",
    "server.data_dir": "server.data_dir = '/other'",
    "server.plugin_dir": "server.plugin_dir = '/tmp'",
    "server.max_failed_keys_per_minute": "server.max_failed_keys_per_minute = 3",
    "storage.url": "storage.url = 'postgresql://h/d'",
    "storage.password_file": "storage = {url = 'postgresql://h/d', password_file = '/dev/null'}",
    "storage.min_free_bytes": "storage.min_free_bytes = 0",
    "storage.pool_size": "storage.pool_size = 3",
    "storage.statement_timeout_s": "storage.statement_timeout_s = 3",
    "metrics.listen": "metrics.listen = ''",
    "log.format": "log.format = 'json'",
}


def test_a_file_that_names_no_model_any_more_is_refused():
    old = parse("[[models]]\nid = 'm'\n[[models.upstreams]]\nurl = 'http://x/v1'\n")
    with pytest.raises(ConfigError, match="models: none is left"):
        reload(old, parse(""))
    assert reload(parse(""), old)[0] == old


def test_nothing_changed():
    old = parse("")
    assert reload(old, parse("")) == (old, [])


def test_every_fixed_setting_has_a_case():
    assert set(FIXED_CHANGES) == set(FIXED)


@pytest.mark.parametrize("name", FIXED)
def test_fixed_settings_stay_and_are_named(name):
    old, new = parse(""), parse(FIXED_CHANGES[name])
    config, ignored = reload(old, new)
    assert name in ignored
    assert config == old


@pytest.mark.parametrize(
    "text",
    [
        "server = {drain_s = 1, public_url = 'http://h'}",
        "log.level = 'debug'",
        "extensions.files = true",
        "batches = {enabled = false, max_requests = 5}",
        "tiers.free.daily_quota_usd = 3",
        "[[models]]\nid = 'm'\nupstreams = [{url = 'echo:'}]",
    ],
)
def test_everything_else_is_taken(text):
    old, new = parse(""), parse(text)
    assert new != old
    assert reload(old, new) == (new, [])


def test_the_rest_is_taken_beside_an_ignored_change():
    config, ignored = reload(parse(""), parse("server = {listen = ['h:2'], drain_s = 5}"))
    assert ignored == ["server.listen"]
    assert config == parse("server.drain_s = 5")


def test_certificates_are_replaced_but_tls_neither_begins_nor_ends():
    plain = parse("")
    one = parse("server = {tls_cert = 'a.pem', tls_key = 'a.key'}", store_only=True)
    other = parse("server = {tls_cert = 'b.pem', tls_key = 'b.key'}", store_only=True)
    assert reload(one, other) == (other, [])
    assert reload(one, plain) == (one, ["server.tls_cert", "server.tls_key"])
    assert reload(plain, one) == (plain, ["server.tls_cert", "server.tls_key"])
