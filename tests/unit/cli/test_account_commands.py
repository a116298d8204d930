"""`fibatchd account` and `fibatchd key`: what they print, on which stream, with which exit status."""

import json
import re

import pytest
from click.testing import CliRunner

from fibatchd.cli import main
from fibatchd.domain.accounts import looks_like_key

NO_SUCH = "acct_" + "0" * 32


@pytest.fixture
def call(tmp_path):
    """Run a command with `--config` behind it, on a store of the test's own."""
    config = tmp_path / "fibatchd.toml"
    config.write_text(
        f"[server]\ndata_dir = {json.dumps(str(tmp_path / 'data'))}\n"
        "[tiers.pro]\ndaily_quota_usd = '20.00'\n[tiers.gold]\n"
        "[[models]]\nid = 'echo'\naliases = ['parrot']\nupstreams = [{ url = 'echo:' }]\n"
    )

    def call(*words, first=False):
        where = ["--config", str(config)]
        return CliRunner().invoke(main, [*where, *words] if first else [*words, *where], catch_exceptions=False)

    return call


@pytest.fixture
def account(call):
    return call("account", "create", "bob", "--tier", "pro").stdout.strip()


def listed(call, *words):
    return json.loads(call(*words, "--json").stdout)


def test_create_prints_the_id_alone(call):
    answer = call("account", "create", "bob", "--tier", "gold")
    assert re.fullmatch(r"acct_[0-9a-f]{32}\n", answer.stdout)
    assert (answer.stderr, answer.exit_code) == ("", 0)


def test_a_tier_that_is_not_configured(call):
    answer = call("account", "create", "bob", "--tier", "platinum")
    assert (answer.stdout, answer.exit_code) == ("", 1)
    assert (
        answer.stderr
        == "fibatchd: there is no tier 'platinum'; the configuration has free, pro, internal, admin, gold\n"
    )


def test_account_json(call, account):
    (shown,) = listed(call, "account", "list")
    assert shown.pop("created_at") > 1_700_000_000
    assert shown == {"id": account, "name": "bob", "tier": "pro", "status": "active", "daily_quota_usd": 20.0}


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["suspend"], "status", "suspended"),
        (["resume"], "status", "active"),
        (["delete"], "status", "deleted"),
        (["set-tier", "gold"], "tier", "gold"),
        (["set-quota", "1.5"], "daily_quota_usd", 1.5),
        (["set-quota", "0.000000000001"], "daily_quota_usd", 1e-12),
        (["set-quota", "none"], "daily_quota_usd", None),
    ],
)
def test_changes(call, account, words, field, value):
    name, *rest = words
    answer = call("account", name, account, *rest)
    assert (answer.stdout, answer.stderr, answer.exit_code) == ("", "", 0)
    (shown,) = listed(call, "account", "list")
    assert shown[field] == value
    assert shown["id"] == account


def test_a_quota_is_written_exactly(call, account):
    call("account", "set-quota", account, "0.1")
    assert '"daily_quota_usd": 0.1,' in call("account", "list", "--json").stdout


@pytest.mark.parametrize(
    "words",
    [
        ["account", "suspend", NO_SUCH],
        ["account", "resume", NO_SUCH],
        ["account", "delete", NO_SUCH],
        ["account", "set-tier", NO_SUCH, "pro"],
        ["account", "set-quota", NO_SUCH, "none"],
        ["key", "create", NO_SUCH],
        ["key", "list", NO_SUCH],
        ["key", "revoke", "key_nothing"],
    ],
)
def test_what_does_not_exist(call, account, words):
    answer = call(*words)
    assert (answer.stdout, answer.exit_code) == ("", 1)
    assert re.fullmatch(rf"fibatchd: there is no (account|key) {words[2]}.*\n", answer.stderr)


def test_a_deleted_account_takes_no_change(call, account):
    call("account", "delete", account)
    for words in (["resume", account], ["set-tier", account, "pro"], ["set-quota", account, "1"], ["delete", account]):
        assert call("account", *words).exit_code == 1
    assert call("key", "create", account).exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ["account"],
        ["account", "create"],
        ["account", "create", "bob"],
        ["account", "create", " ", "--tier", "pro"],
        ["account", "create", "a\nb", "--tier", "pro"],
        ["account", "create", "a\udcff", "--tier", "pro"],
        ["account", "create", "x" * 201, "--tier", "pro"],
        ["account", "set-quota", NO_SUCH, "much"],
        ["account", "set-quota", NO_SUCH, "1e3"],
        ["key", "create", NO_SUCH, "--expires-in", "0"],
        ["key", "create", NO_SUCH, "--expires-in", "nan"],
        ["key", "create", NO_SUCH, "--expires-in", "soon"],
        ["key", "revoke"],
        ["nothing"],
        ["account", "nothing"],
    ],
)
def test_wrong_usage(call, words):
    answer = call(*words)
    assert (answer.stdout, answer.exit_code) == ("", 2)
    assert answer.stderr.startswith("Usage: ")


def test_key_create_prints_the_key_alone(call, account):
    answer = call("key", "create", account, first=True)
    assert looks_like_key(answer.stdout.strip())
    assert answer.stdout.count("\n") == 1
    assert answer.stderr == ""


def test_key_json(call, account):
    secret = call("key", "create", account, "--expires-in", "60", "--model", "parrot", "--model", "echo").stdout
    (shown,) = listed(call, "key", "list", account)
    assert shown["expires_at"] == pytest.approx(shown["created_at"] + 60, abs=1)
    assert shown["models"] == ["echo"]  # an alias is kept as the model it means, and each once
    assert secret.startswith(shown["prefix"])
    assert secret.strip() not in json.dumps(shown)
    assert set(shown) == {"id", "account_id", "prefix", "created_at", "expires_at", "revoked_at", "models"}
    assert (shown["account_id"], shown["revoked_at"]) == (account, None)


def test_a_key_for_a_model_that_is_not_there_yet(call, account):
    answer = call("key", "create", account, "--model", "later")
    assert looks_like_key(answer.stdout.strip())
    assert answer.stderr == "fibatchd: warning: the configuration has no model 'later'\n"


def test_revoking_twice_keeps_the_time(call, account):
    call("key", "create", account)
    (shown,) = listed(call, "key", "list", account)
    assert call("key", "revoke", shown["id"]).exit_code == 0
    (revoked,) = listed(call, "key", "list", account)
    assert call("key", "revoke", shown["id"]).exit_code == 0
    assert listed(call, "key", "list", account) == [revoked]
    assert revoked["revoked_at"] is not None


def test_tables_for_people(call, account):
    assert call("key", "list", account).stdout == "no keys\n"
    call("key", "create", account)
    header, row = call("key", "list", account).stdout.splitlines()
    assert header.split() == ["id", "account_id", "prefix", "created", "expires", "revoked", "models"]
    assert row.split()[1] == account
    assert re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ +- +- +- *$", row)


def test_every_problem_of_a_configuration(tmp_path):
    config = tmp_path / "wrong.toml"
    config.write_text("[batches]\nmax_requests = 0\n[tires]\n")
    answer = CliRunner().invoke(main, ["account", "list", "--config", str(config)])
    assert (answer.stdout, answer.exit_code) == ("", 1)
    assert [line.partition(":")[0] for line in answer.stderr.splitlines()] == ["batches.max_requests", "tires"]


@pytest.mark.parametrize(
    "words", [["account", "list"], ["account", "delete", NO_SUCH], ["key", "list", NO_SUCH], ["key", "revoke", "key_1"]]
)
def test_only_what_creates_an_account_creates_a_database(call, tmp_path, words):
    answer = call(*words)
    assert (answer.stdout, answer.exit_code) == ("", 1)
    assert answer.stderr.startswith(f"fibatchd: there is no database {tmp_path}/data/fibatchd.db; the daemon's first")
    assert not (tmp_path / "data").exists()


def test_a_command_that_was_not_told_the_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(main, ["account", "list"])
    assert (
        answer.stderr == f"fibatchd: there is no database {tmp_path}/fibatchd-data/fibatchd.db; is --config missing?\n"
    )
    assert (answer.exit_code, list(tmp_path.iterdir())) == (1, [])


def test_a_store_that_cannot_be_opened(tmp_path):
    (tmp_path / "file").write_text("")
    config = tmp_path / "fibatchd.toml"
    config.write_text(f"[server]\ndata_dir = {json.dumps(str(tmp_path / 'file'))}\n")
    answer = CliRunner().invoke(main, ["account", "list", "--config", str(config)])
    assert answer.exit_code == 1
    assert answer.stderr.startswith("fibatchd: ")
    assert "cannot be opened" in answer.stderr
