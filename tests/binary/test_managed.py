"""What a service manager relies on: the program is the very process that it started, and works under the unit's hardening."""

import contextlib
import signal
import socket
import subprocess
import sys

import httpx2
import psutil
import pytest
from daemons import chat, finished
from notify_socket import notify_socket
from shipped import ShippedDaemon

CONFIG = """
[storage]
min_free_bytes = 0
[[models]]
id = "m"
upstreams = [{{ url = "{upstream}/v1" }}]
"""
# As systemd does it: the process that becomes the program knows its id from a variable; a socket is descriptor 3.
BECOMING = """
import os, sys
variable, passed, env, bare, *command = sys.argv[1:]
if passed:
    os.dup2(int(passed), 3)
os.execv(env, [env, bare, f"{variable}={os.getpid()}", *command])
"""
# As MemoryDenyWriteExecute= and NoNewPrivileges=, by prctl(2): no memory becomes executable that was writable.
HARDENED = """
import ctypes, os, sys
prctl = ctypes.CDLL(None, use_errno=True).prctl
PR_SET_NO_NEW_PRIVS, PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 38, 65, 1
assert prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0, "this kernel is older than 6.3"
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def manager(tmp_path):
    with notify_socket(tmp_path / "notify") as listening:
        yield listening


@pytest.fixture
def start(program, tmp_path, processes, upstream):
    """A function that starts a daemon."""

    def started(**more):
        daemon = ShippedDaemon(program, tmp_path, CONFIG.format(upstream=upstream.url), **more)
        processes.append(daemon)
        return daemon

    return started


def test_notify_watchdog_reload_stop(start, manager):
    prefix = [sys.executable, "-c", BECOMING, "WATCHDOG_PID", ""]
    daemon = start(env={**manager.env, "WATCHDOG_USEC": "900000"}, prefix=prefix, wait=False)
    assert manager.until(READY="1")["STATUS"] == f"Serving http://127.0.0.1:{daemon.port}"
    for _ in range(3):
        manager.until(timeout=10, WATCHDOG="1")
    daemon.signal(signal.SIGHUP)
    manager.until(RELOADING="1")
    assert manager.until(READY="1")["STATUS"] == f"Serving http://127.0.0.1:{daemon.port}"
    daemon.signal(signal.SIGTERM)
    manager.until(STOPPING="1")
    assert daemon.wait() == 0


def test_socket_activation(program, tmp_path, processes, upstream):
    config = tmp_path / "fibatchd.toml"
    config.write_text(
        f'[server]\nlisten = ["fd://"]\ndata_dir = "{tmp_path}"\n[metrics]\nlisten = ""\n'
        + CONFIG.format(upstream=upstream.url)
    )
    with socket.socket() as passed:
        passed.bind(("127.0.0.1", 0))
        passed.listen(10)
        fd, port = passed.fileno(), passed.getsockname()[1]
        command = program.command("serve", "--config", config, LISTEN_FDS="1")
        becoming = [sys.executable, "-c", BECOMING, "LISTEN_PID", str(fd)]
        with subprocess.Popen([*becoming, *command], pass_fds=[fd]) as process:
            try:
                # It waits in the socket's queue until the daemon is there.
                assert httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=30).status_code == 200
            finally:
                process.terminate()
        assert process.returncode == 0


def mine(folder):
    """The processes that were started with a configuration in this folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(folder) in word for word in process.cmdline()):
                found.append(process.pid)
    return found


def test_it_is_the_process_that_was_started_and_killed_it_leaves_nothing_running(start, tmp_path):
    daemon = start()
    assert mine(tmp_path) == [daemon.process.pid]
    connections = psutil.Process(daemon.process.pid).net_connections()
    assert daemon.port in {found.laddr.port for found in connections if found.status == psutil.CONN_LISTEN}
    daemon.signal(signal.SIGKILL)
    daemon.wait()
    assert mine(tmp_path) == []
    again = daemon.restart()
    try:
        with again.client(again.new_key()) as client:
            batch = client.post("/v1/batches", json={"requests": [chat("q", "say")]}).raise_for_status().json()
            assert finished(client, batch["id"])["status"] == "completed"
    finally:
        again.close()


def test_under_the_units_hardening(start):
    daemon = start(prefix=[sys.executable, "-c", HARDENED])
    with daemon.client(daemon.new_key()) as client:
        batch = client.post("/v1/batches", json={"requests": [chat("q", "say")]}).raise_for_status().json()
        assert finished(client, batch["id"])["status"] == "completed"
