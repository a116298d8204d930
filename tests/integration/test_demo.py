"""`fibatchd demo` as a real process."""

import contextlib
import json
import re
import signal
import socket
import subprocess

import pytest
from commands import fibatchd, started
from daemons import ModelServerProcess, closing_all


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
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # also while an earlier test's connection lingers
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
def test_demo_on_a_server_of_ones_own(tmp_path):
    with closing_all() as processes:
        processes.append(model_server := ModelServerProcess())
        done = fibatchd("demo", "--exit", "--base-url", model_server.url, "--model", "mine", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "40 completed, 0 failed" in done.stdout
        assert {entry["model"] for entry in model_server.log_entries()} == {"mine"}


@pytest.mark.slow
def test_demo_interrupted_while_its_batch_runs(tmp_path):
    with started("demo", cwd=tmp_path) as process:
        assert process.stdout.readline().startswith("Submitted batch_")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "fibatchd:" not in errors


@pytest.mark.slow
def test_two_demos_in_one_folder(tmp_path):
    with started("demo", cwd=tmp_path) as first:
        assert any("stays up at" in line for line in first.stdout)
        second = fibatchd("demo", "--exit", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert "40 completed, 0 failed" in second.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo-data", "demo-data-2"]
