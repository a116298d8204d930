"""systemd's side played by the test: its notify socket, its watchdog, its passed sockets, on a real daemon process."""

import os
import signal
import socket
import subprocess
import sys
import time

import httpx2
import pytest
from daemons import DaemonProcess, ModelServerProcess, Process, chat, finished, free_port, until
from notify_socket import notify_socket
from prometheus_text import Scrape

CONFIG = """
drain_s = {drain_s}
[storage]
min_free_bytes = 0
[[models]]
id = "m"
upstreams = [{{ url = "{upstream}/v1" }}]
"""
# As systemd passes sockets: it becomes the program, whose process id LISTEN_PID then is.
PASSING = "import os, sys; os.environ['LISTEN_PID'] = str(os.getpid()); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


@pytest.fixture
def upstream(processes):
    server = ModelServerProcess()
    processes.append(server)
    return server


@pytest.fixture
def manager(tmp_path):
    with notify_socket(tmp_path / "notify") as listening:
        yield listening


def start(tmp_path, processes, upstream, manager, *, drain_s=5, **env):
    config = CONFIG.format(drain_s=drain_s, upstream=upstream.url)
    daemon = DaemonProcess(tmp_path, config, env={**manager.env, **env})
    processes.append(daemon)
    return daemon


def test_start_reload_stop(tmp_path, processes, upstream, manager):
    daemon = start(tmp_path, processes, upstream, manager)
    ready = manager.until(READY="1")
    assert ready["STATUS"] == f"Serving http://127.0.0.1:{daemon.port}"
    assert manager.messages == [ready], "nothing comes before it, and there is no watchdog"

    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    daemon.signal(signal.SIGHUP)
    reloading = manager.until(RELOADING="1")
    assert before <= int(reloading["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert manager.until(READY="1")["STATUS"] == ready["STATUS"]

    daemon.config.write_text(daemon.config.read_text() + "\n[nonsense]\n")
    daemon.signal(signal.SIGHUP)
    manager.until(RELOADING="1")
    assert manager.until(READY="1")["STATUS"] == ready["STATUS"] + "; the last reload failed, see the log"

    daemon.signal(signal.SIGTERM)
    assert manager.until(STOPPING="1")["STATUS"] == "Waiting for running requests"
    assert daemon.wait() == 0


def test_an_abstract_socket(tmp_path, processes, upstream):
    with notify_socket(f"\0fibatchd-test-{os.getpid()}") as manager:
        start(tmp_path, processes, upstream, manager)
        manager.until(READY="1")


@pytest.mark.slow
def test_more_time_is_asked_for_while_draining(tmp_path, processes, upstream, manager):
    upstream.control(rules=[{"match": "say", "action": {"hang": True}}])
    daemon = start(tmp_path, processes, upstream, manager, drain_s=6)
    with daemon.client(daemon.new_key()) as client:
        client.post("/v1/batches", json={"requests": [chat("q", "say")]}).raise_for_status()
    until(lambda: upstream.stats()["in_flight"].get("m"))
    manager.drain()
    daemon.signal(signal.SIGTERM)
    manager.until(STOPPING="1")
    extensions = [manager.until(EXTEND_TIMEOUT_USEC="15000000") for _ in range(2)]
    assert len(extensions) == 2, "at once, and again while requests run"
    assert daemon.wait() == 0


def test_the_watchdog_is_fed_while_the_loop_turns(tmp_path, processes, upstream, manager):
    daemon = start(tmp_path, processes, upstream, manager, WATCHDOG_USEC="600000")
    manager.until(READY="1")
    for _ in range(5):
        assert manager.until(timeout=10, WATCHDOG="1")
    daemon.signal(signal.SIGSTOP)
    manager.drain()
    assert manager.receive(1.5) is None, "a process that hangs says nothing"
    daemon.signal(signal.SIGCONT)
    manager.until(WATCHDOG="1")


def test_the_watchdog_of_another_process_is_not_ours(tmp_path, processes, upstream, manager):
    start(tmp_path, processes, upstream, manager, WATCHDOG_USEC="100000", WATCHDOG_PID="1")
    manager.until(READY="1")
    assert manager.receive(0.5) is None


class PassedSockets(Process):
    """`fibatchd serve` with listening sockets from descriptor 3 on, as systemd passes them."""

    def __init__(self, folder, config, sockets):
        self.config = folder / "fibatchd.toml"
        self.config.write_text(config)
        self.log = folder / "daemon.log"
        names = ":".join(sockets)
        self._stderr = self.log.open("ab")
        target = [passed.fileno() for passed in sockets.values()]
        command = [sys.executable, "-c", PASSING, "-m", "fibatchd", "serve", "--config", str(self.config)]
        self.process = subprocess.Popen(
            _moving(target, command),
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "LISTEN_FDS": str(len(target)), "LISTEN_FDNAMES": names},
            pass_fds=target,
        )


def _moving(descriptors, command):
    """The command, in a shell that moves descriptors to 3, 4, … first: by way of high ones, lest two change places."""
    up = " ".join(f"{100 + n}<&{fd}" for n, fd in enumerate(descriptors))
    down = " ".join(f"{3 + n}<&{100 + n}" for n in range(len(descriptors)))
    return ["bash", "-c", f'exec {up}; exec {down}; exec "$@"', "bash", *command]


def listening_socket():
    passed = socket.socket()
    passed.bind(("127.0.0.1", 0))
    passed.listen(100)
    return passed


def test_sockets_passed_by_systemd(tmp_path, processes, upstream):
    with listening_socket() as api, listening_socket() as metrics:
        (api_port, metrics_port) = (passed.getsockname()[1] for passed in (api, metrics))
        config = (
            f'[server]\nlisten = ["fd://"]\ndata_dir = "{tmp_path}"\n'
            + CONFIG.format(drain_s=1, upstream=upstream.url)
            + '[metrics]\nlisten = "fd://metrics"\n'
        )
        # Connected before the daemon is there: the connection waits in the queue, as it does over a restart.
        with socket.create_connection(("127.0.0.1", api_port), timeout=60) as early:
            early.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            daemon = PassedSockets(tmp_path, config, {"api": api, "metrics": metrics})
            processes.append(daemon)
            assert early.recv(15) == b"HTTP/1.1 200 \r\n"
        base = f"http://127.0.0.1:{api_port}"
        until(lambda: httpx2.get(f"{base}/readyz").status_code == 200)
        assert Scrape(metrics_port)("ready") == 1
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0


def test_a_connection_over_a_restart_is_served_by_the_next_daemon(tmp_path, processes, upstream):
    with listening_socket() as api:
        port = api.getsockname()[1]
        config = f'[server]\nlisten = ["fd://"]\ndata_dir = "{tmp_path}"\n' + CONFIG.format(
            drain_s=1, upstream=upstream.url
        )
        config += f'[metrics]\nlisten = "127.0.0.1:{free_port()}"\n'
        first = PassedSockets(tmp_path, config, {"api": api})
        processes.append(first)
        until(lambda: httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=30).status_code == 200)
        first.signal(signal.SIGTERM)
        assert first.wait() == 0
        with socket.create_connection(("127.0.0.1", port), timeout=60) as between:
            between.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            processes.append(PassedSockets(tmp_path, config, {"api": api}))
            assert between.recv(15) == b"HTTP/1.1 200 \r\n"


def test_a_batch_runs_under_a_manager(tmp_path, processes, upstream, manager):
    daemon = start(tmp_path, processes, upstream, manager, WATCHDOG_USEC="600000")
    with daemon.client(daemon.new_key()) as client:
        batch = client.post("/v1/batches", json={"requests": [chat("q", "say")]}).raise_for_status().json()
        assert finished(client, batch["id"])["status"] == "completed"
