"""The command line as real processes: beside a daemon, killed in mid-run, stopped by signals, and quick to start."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from daemons import DaemonProcess, ModelServerProcess, chat, closing_all, finished

CONFIG = """
[metrics]
listen = ""
[[models]]
id = "m"
upstreams = [{ url = "URL/v1", timeout_s = 20 }]
"""


def fibatchd(*words, env=None, cwd=None, timeout=60):
    return subprocess.run(
        [sys.executable, "-m", "fibatchd", *map(str, words)],
        capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})}, cwd=cwd, check=False,
    )  # fmt: skip


@contextlib.contextmanager
def started(*words, cwd=None):
    process = subprocess.Popen(
        [sys.executable, "-m", "fibatchd", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def model_server():
    with closing_all() as processes:
        processes.append(ModelServerProcess())
        yield processes[0]


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


@pytest.fixture
def requests_file(tmp_path):
    def write(total, content=lambda n: f"question {n}"):
        path = tmp_path / "in.jsonl"
        with open(path, "w") as file:
            for n in range(total):
                file.write(
                    json.dumps(chat(f"c-{n}", content(n)) | {"method": "POST", "url": "/v1/chat/completions"}) + "\n"
                )
        return path

    return write


def outputs(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


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


# fibatchd run


def test_run(model_server, requests_file, tmp_path):
    model_server.control(rules=[{"match": "question 3", "times": 1, "action": {"status": 503}},
                                {"match": "question 4", "action": {"status": 400}}])  # fmt: skip
    out = tmp_path / "out.jsonl"
    done = fibatchd("run", requests_file(6), out, "--base-url", model_server.url, "--model", "other")
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
    assert "6 requests in " in done.stderr
    assert "5 completed, 1 failed, 1 attempts tried again" in done.stderr
    lines = outputs(out)
    assert [line["custom_id"] for line in lines] == [f"c-{n}" for n in range(6)]
    assert [line["response"]["status_code"] for line in lines] == [200, 200, 200, 200, 400, 200]
    assert lines[4]["response"]["body"]["error"]["code"] == "invalid_request"
    assert {entry["model"] for entry in model_server.log_entries()} == {"other"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_run_again_asks_nothing(model_server, requests_file, tmp_path):
    words = ["run", requests_file(5), tmp_path / "out.jsonl", "--base-url", model_server.url]
    assert fibatchd(*words).returncode == 0
    before = (tmp_path / "out.jsonl").read_bytes()
    assert fibatchd(*words).returncode == 0
    assert model_server.stats()["asked"] == 5
    assert (tmp_path / "out.jsonl").read_bytes() == before
    assert fibatchd(*words, "--overwrite").returncode == 0
    assert model_server.stats()["asked"] == 10


def test_run_overwrites_nothing_of_another(model_server, requests_file, tmp_path):
    (tmp_path / "out.jsonl").write_text("mine\n")
    done = fibatchd("run", requests_file(2), tmp_path / "out.jsonl", "--base-url", model_server.url)
    assert done.returncode == 1
    assert "--overwrite" in done.stderr
    assert (tmp_path / "out.jsonl").read_text() == "mine\n"


EMBEDDINGS = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m",
              "usage": {"prompt_tokens": 3, "total_tokens": 3}}  # fmt: skip


def test_run_of_an_endpoint_that_a_plugin_brings(model_server, tmp_path):
    model_server.control(rules=[{"match": "", "action": {"body": json.dumps(EMBEDDINGS)}}])
    items = [
        {"custom_id": str(n), "url": "/v1/embeddings", "body": {"model": "m", "input": f"text {n}"}} for n in (1, 2)
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, items)))
    done = fibatchd("run", tmp_path / "in.jsonl", tmp_path / "out.jsonl", "--base-url", model_server.url)
    assert done.returncode == 0, done.stderr
    assert [line["response"]["body"] for line in outputs(tmp_path / "out.jsonl")] == [EMBEDDINGS, EMBEDDINGS]
    assert {entry["path"] for entry in model_server.log_entries()} == {"/v1/embeddings"}
    assert "6 input and 0 output tokens" in done.stderr


def test_run_into_its_own_input(requests_file):
    path = requests_file(2)
    before = path.read_bytes()
    for more in ([], ["--overwrite"]):
        assert fibatchd("run", path, path, "--base-url", "echo:", *more).returncode == 2
    assert path.read_bytes() == before


def test_run_killed_again_and_again(model_server, requests_file, tmp_path):
    total, concurrency = 300, 8
    model_server.control(delay=0.01)
    out = tmp_path / "out.jsonl"
    words = ["run", requests_file(total), out, "--base-url", model_server.url, "--concurrency", concurrency]
    kills = 0
    for goal in (40, 110, 200):
        with started(*words) as process:
            while process.poll() is None and model_server.stats()["asked"] < goal:
                time.sleep(0.005)  # another process' progress can only be polled
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        assert not out.exists()
    done = fibatchd(*words)
    assert done.returncode == 0, done.stderr
    assert re.search(r"going on: \d+ of 300 were answered before", done.stderr)
    lines = outputs(out)
    assert [line["custom_id"] for line in lines] == [f"c-{n}" for n in range(total)]
    given = {entry["answer"] for entry in model_server.log_entries()}
    for n, line in enumerate(lines):
        content = line["response"]["body"]["choices"][0]["message"]["content"]
        assert content.startswith(f"question {n} #")
        assert json.dumps(line["response"]["body"]) in given
    # What was under way, or not yet on disk, when the run was killed is asked again; nothing else is.
    assert model_server.stats()["asked"] <= total + kills * 3 * concurrency


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_stopped_and_gone_on(model_server, requests_file, tmp_path, number):
    model_server.control(delay=0.02)
    words = ["run", requests_file(100), tmp_path / "out.jsonl", "--base-url", model_server.url, "--concurrency", 4]
    with started(*words) as process:
        while process.poll() is None and model_server.stats()["asked"] < 20:
            time.sleep(0.005)
        process.send_signal(number)
        _, told = process.communicate(timeout=20)
        assert process.returncode == 128 + number
    assert re.search(r"stopped at \d+ of 100; run it again to go on", told)
    assert "Traceback" not in told
    assert fibatchd(*words).returncode == 0
    assert len(outputs(tmp_path / "out.jsonl")) == 100
    assert model_server.stats()["asked"] <= 104


def test_run_with_a_key(model_server, requests_file, tmp_path):
    words = [
        "run",
        requests_file(1),
        tmp_path / "out.jsonl",
        "--base-url",
        model_server.url,
        "--api-key-env",
        "THE_KEY",
    ]
    done = fibatchd(*words, env={"THE_KEY": " "})
    assert (done.returncode, done.stderr) == (1, "fibatchd: --api-key-env: $THE_KEY holds no key\n")
    assert fibatchd(*words, env={"THE_KEY": "secret"}).returncode == 0


def test_run_without_a_server(requests_file, tmp_path):
    done = fibatchd(
        "run", requests_file(3), tmp_path / "out.jsonl", "--base-url", "http://127.0.0.1:1", "--wait", "0.5"
    )
    assert done.returncode == 1
    assert "no answer from the server for 0.5 s" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_with_a_file_that_is_wrong(tmp_path):
    (tmp_path / "in.jsonl").write_text("{}\n\n[]\n")
    done = fibatchd("run", tmp_path / "in.jsonl", tmp_path / "out.jsonl", "--base-url", "echo:")
    assert (done.stdout, done.returncode) == ("", 1)
    assert [line.removeprefix(str(tmp_path)).split(": ")[0] for line in done.stderr.splitlines()] == [
        "/in.jsonl:1",
        "/in.jsonl:3",
    ]


def peak_mib(*words):
    process = subprocess.Popen(
        [sys.executable, "-m", "fibatchd", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1024


def test_run_takes_the_same_memory_for_a_large_file(requests_file, tmp_path):
    def peak(total):
        source = requests_file(total, lambda n: "word " * 40_000)
        return peak_mib("run", source, tmp_path / f"out-{total}", "--base-url", "echo:", "--concurrency", "4")

    small, large = peak(10), peak(250)
    assert os.path.getsize(tmp_path / "out-250") > 40 * 2**20
    assert large < small + 25


# fibatchd demo


@pytest.mark.slow
def test_demo_twice(tmp_path):
    for start in (1, 2):
        done = fibatchd("demo", "--exit", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "40 completed, 0 failed" in done.stdout
        assert re.search(r"; cost 0\.000\d+ USD\n", done.stdout)
        assert len(re.findall(r"^q-\d+ +completed +You said: ", done.stdout, re.MULTILINE)) == 40
        assert "running: 40 of 40" in done.stderr
        accounts = json.loads(
            fibatchd("account", "list", "--json", "--config", tmp_path / "demo-data" / "demo.toml").stdout
        )
        assert [account["name"] for account in accounts] == ["demo"]
        keys = json.loads(
            fibatchd(
                "key", "list", accounts[0]["id"], "--json", "--config", tmp_path / "demo-data" / "demo.toml"
            ).stdout
        )
        assert len(keys) == start


@pytest.mark.slow
def test_demo_stays_until_it_is_interrupted(tmp_path):
    with socket.socket() as other:  # somebody may have the usual port already
        with contextlib.suppress(OSError):
            other.bind(("127.0.0.1", 8787))
        other.listen()
        with started("demo", "--data-dir", tmp_path / "data") as process:
            told = []
            for line in process.stdout:
                told.append(line)
                if "-d '" in line:
                    break
            (url,) = re.findall(r"stays up at (http://127\.0\.0\.1:(?!8787)\d+);", "".join(told))
            curl = "".join(told[-2:])
            made = subprocess.run(
                ["sh", "-c", curl.replace("curl", "curl -sS")], capture_output=True, text=True, check=True
            )
            assert json.loads(made.stdout)["object"] == "batch"
            assert f"curl {url}/v1/batches" in curl
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in errors


@pytest.mark.slow
def test_demo_on_a_server_of_ones_own(model_server, tmp_path):
    done = fibatchd("demo", "--exit", "--base-url", model_server.url, "--model", "mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "40 completed, 0 failed" in done.stdout
    assert {entry["model"] for entry in model_server.log_entries()} == {"mine"}
