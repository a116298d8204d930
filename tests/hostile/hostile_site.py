"""A daemon that everything hostile is sent to, and what is asked of it: its memory, its descriptors, its log."""

import re
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from daemons import ALL_BUT_CONSOLE, DaemonProcess, Process, free_port
from scripted_model import ScriptedModel
from vitals import Vitals

CONFIG = (
    """
header_timeout_s = 2
[metrics]
listen = "127.0.0.1:{metrics}"
[storage]
min_free_bytes = 0
[batches]
max_unfinished_batches = 100000
max_unfinished_requests = 100000000
max_uploads_per_hour = 1000000
retry_base_s = 0.01
[[models]]
id = "m"
concurrency = 8
endpoints = ["/v1/chat/completions", "/v1/embeddings", "/v1/responses", "/v1/messages"]
upstreams = [{{ url = "{url}/v1", endpoints = ["/v1/chat/completions", "/v1/embeddings"] }}]
[[models]]
id = "parked"
endpoints = ["/v1/chat/completions", "/v1/messages"]
upstreams = [{{ url = "{url}/v1", endpoints = ["/v1/chat/completions"], requests_per_minute = 1 }}]
"""
    + ALL_BUT_CONSOLE
)
"""One request of a batch for the model `parked` starts in a minute: next to nothing runs while something is measured."""

LAG = re.compile(r'fibatchd_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)')


@dataclass
class Site:
    """The daemon, and a key of an account of its own."""

    daemon: DaemonProcess
    upstream: ScriptedModel
    metrics: int
    key: str
    vitals: Vitals
    headers: dict[str, str] = field(default_factory=dict)

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.daemon.base, headers=self.headers, timeout=120)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.daemon.port), timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def longest_hold(self) -> float:
        """The bound, in seconds, that no beat of the event loop was late by, since the start."""
        page = httpx2.get(f"http://127.0.0.1:{self.metrics}/metrics", timeout=60).text
        buckets = [(float(bound), float(count)) for bound, count in LAG.findall(page)]
        return min(bound for bound, count in buckets if count == buckets[-1][1])

    def check(self) -> None:
        """It runs, and serves; and it has met with nothing that it did not expect."""
        assert self.daemon.process.poll() is None, self.daemon.output()[-3000:]
        assert httpx2.get(f"{self.daemon.base}/readyz", timeout=60).status_code == 200
        errors = [line for line in self.daemon.log_lines() if line["level"] in ("error", "critical")]
        assert not errors, errors[:3]


def open_site(folder: Path, processes: list[Process]) -> Site:
    upstream = ScriptedModel()
    metrics = free_port()
    daemon = DaemonProcess(folder, CONFIG.format(metrics=metrics, url=upstream.url))
    processes.append(daemon)
    key = daemon.new_key()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json", "anthropic-version": "2023-06-01"}
    vitals = Vitals(daemon.process.pid, folder / "fibatchd.db")
    return Site(daemon, upstream, metrics, key, vitals, headers=headers)


def until_closed(connection: socket.socket) -> bytes:
    """All that comes on a connection until the server closes it."""
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionError:
        pass
    return received


def eventually(condition, seconds=30):
    """Whether it comes true; another process can only be polled."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
