"""`fibatchd run` as a real process: killed in mid-run, stopped by signals, started again."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from commands import fibatchd, started
from daemons import ModelServerProcess, chat, closing_all, until


@pytest.fixture
def model_server():
    with closing_all() as processes:
        processes.append(ModelServerProcess())
        yield processes[0]


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


def until_asked(process, model_server, count):
    """Wait until the model was asked so often, or the run is over."""
    until(lambda: process.poll() is not None or model_server.stats()["asked"] >= count)


def test_run_killed_again_and_again(model_server, requests_file, tmp_path):
    total, concurrency = 300, 8
    model_server.control(delay=0.01)
    out = tmp_path / "out.jsonl"
    words = ["run", requests_file(total), out, "--base-url", model_server.url, "--concurrency", concurrency]
    kills = 0
    for goal in (40, 110, 200):
        with started(*words) as process:
            until_asked(process, model_server, goal)
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
        until_asked(process, model_server, 20)
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
