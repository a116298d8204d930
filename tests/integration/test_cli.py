"""The command line as real processes: beside a daemon, with what cannot work, and quick to start."""

import json
import os
import re
import socket
import subprocess
import sys

import pytest
from commands import fibatchd
from daemons import DaemonProcess, ModelServerProcess, chat, closing_all, finished

CONFIG = """
[metrics]
listen = ""
[[models]]
id = "m"
upstreams = [{ url = "URL/v1", timeout_s = 20 }]
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """A daemon for all tests of this file; each makes an account of its own."""
    with closing_all() as processes:
        processes.append(model_server := ModelServerProcess())
        processes.append(
            daemon := DaemonProcess(tmp_path_factory.mktemp("daemon"), CONFIG.replace("URL", model_server.url))
        )
        yield daemon


@pytest.fixture
def account(daemon):
    return daemon.run("account", "create", "tester", "--tier", "internal")


@pytest.fixture
def key(daemon, account):
    return daemon.run("key", "create", account)


@pytest.fixture
def client(daemon, key):
    with daemon.client(key) as client:
        yield client


# How quickly commands start


@pytest.mark.parametrize("words", [["--version"], ["account", "list", "--json"], ["key", "list", "acct_0", "--json"]])
def test_commands_import_no_more_than_they_use(tmp_path, words):
    code = (
        "import sys\nfrom fibatchd.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    loaded = set(done.stderr.split())
    assert "click" in loaded
    assert not loaded & {"quart", "hypercorn", "asyncpg", "trio_asyncio", "httpx2", "rich", "prometheus_client"}
    assert ("trio" in loaded) == (words[0] != "--version")


# Beside a daemon


def test_accounts_while_the_daemon_runs(daemon, account, client):
    (listed,) = json.loads(daemon.run("key", "list", account, "--json"))
    assert client.get("/v1/models").status_code == 200
    daemon.run("account", "suspend", account)
    assert client.get("/v1/models").status_code == 403
    daemon.run("account", "resume", account)
    assert client.get("/v1/models").status_code == 200
    daemon.run("key", "revoke", listed["id"])
    assert client.get("/v1/models").status_code == 401


def test_a_second_daemon_on_the_same_file(daemon, tmp_path):
    config = tmp_path / "second.toml"
    config.write_text(daemon.config.read_text().replace(str(daemon.port), "0"))
    done = fibatchd("serve", "--config", config)
    assert (done.stdout, done.returncode) == ("", 1)
    assert re.fullmatch(r"fibatchd: another fibatchd serves .*\n", done.stderr)


def test_an_address_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = tmp_path / "fibatchd.toml"
        config.write_text(
            f'[server]\nlisten = ["127.0.0.1:{taken.getsockname()[1]}"]\ndata_dir = "{tmp_path}"\n[metrics]\nlisten = ""\n'
        )
        done = fibatchd("serve", "--config", config)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(taken) not in done.stderr


def test_serve_with_a_wrong_configuration(tmp_path):
    config = tmp_path / "fibatchd.toml"
    config.write_text("[server]\ndrain_s = -1\n[nothing]\n")
    done = fibatchd("serve", "--config", config)
    assert (done.stdout, done.returncode) == ("", 1)
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["nothing", "server.drain_s"]


def test_batch_commands(daemon, key, client, tmp_path):
    env = {"FIBATCHD_BASE_URL": daemon.base, "FIBATCHD_API_KEY": key}
    assert fibatchd("batch", "list", env=env).stdout == "no batches\n"
    batch_id = client.post("/v1/batches", json={"requests": [chat("a", "x"), chat("b", "y")]}).json()["id"]
    batch = finished(client, batch_id)

    assert json.loads(fibatchd("batch", "show", batch_id, env=env).stdout) == batch
    assert json.loads(fibatchd("batch", "list", "--json", env=env).stdout) == [batch]
    header, row = fibatchd("batch", "list", env=env).stdout.splitlines()
    assert header.split()[:3] == ["id", "status", "endpoint"]
    assert row.split()[:6] == [batch_id, "completed", "/v1/chat/completions", "2", "2", "0"]

    exported = client.get(f"/v1/batches/{batch_id}/output.jsonl").text
    assert fibatchd("batch", "download", batch_id, env=env).stdout == exported
    done = fibatchd(
        "batch", "download", batch_id, "-o", tmp_path / "out.jsonl", "--base-url", f"{daemon.base}/v1", env=env
    )
    assert (done.stdout, (tmp_path / "out.jsonl").read_text()) == ("", exported)

    assert fibatchd("batch", "cancel", batch_id, env=env).stdout == "completed\n"
    assert fibatchd("batch", "delete", batch_id, env=env).returncode == 0
    done = fibatchd("batch", "show", batch_id, env=env)
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr.startswith("fibatchd: 404: ")


def test_batch_list_pages(daemon, key, client):
    made = []
    for n in range(12):
        made.append(client.post("/v1/batches", json={"requests": [chat(str(n), "x")]}).json()["id"])
        finished(client, made[-1])
    env = {"FIBATCHD_BASE_URL": daemon.base, "FIBATCHD_API_KEY": key}
    code = (
        "import sys\nfrom fibatchd.cli import batch, main\nbatch.PAGE = 5\n"
        "main(['batch', 'list', '--json', '--limit', sys.argv[1]])"
    )
    for limit in (3, 5, 11, 12, 100):
        done = subprocess.run(
            [sys.executable, "-c", code, str(limit)],
            capture_output=True,
            text=True,
            env={**os.environ, **env},
            check=True,
        )
        assert [batch["id"] for batch in json.loads(done.stdout)] == made[::-1][:limit]


@pytest.mark.parametrize(
    ("env", "status", "told"),
    [
        ({"FIBATCHD_API_KEY": ""}, 2, "--api-key"),
        ({"FIBATCHD_API_KEY": "hyi-" + "a" * 43}, 1, "fibatchd: 401: "),
        ({"FIBATCHD_API_KEY": "x", "FIBATCHD_BASE_URL": "http://127.0.0.1:1"}, 1, "fibatchd: http://127.0.0.1:1/v1/: "),
        ({"FIBATCHD_API_KEY": "x", "FIBATCHD_BASE_URL": "nonsense"}, 2, "--base-url"),
        ({"FIBATCHD_API_KEY": "schlüssel"}, 2, "not a key"),
    ],
)
def test_batch_commands_that_cannot_work(daemon, env, status, told):
    done = fibatchd("batch", "list", env={"FIBATCHD_BASE_URL": daemon.base} | env)
    assert (done.stdout, done.returncode) == ("", status)
    assert told in done.stderr
    assert "Traceback" not in done.stderr
