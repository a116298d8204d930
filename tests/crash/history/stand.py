"""The processes of a history: a daemon by the launcher, and its upstream, which outlives it."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from daemons import ALL_BUT_CONSOLE, DaemonProcess, Process

from history.launch import Switches
from history.record import History

HERE = Path(__file__).parent

LIMITS: dict[str, Any] = {
    "attempts": 8,
    "concurrency": {"up-fast": 16, "up-slow": 2},
    "account_concurrency": 10,
    "unfinished_batches": 5,
    "unfinished_requests": 400,
    "price": {"input": 3_000_000, "output": 5_000_000},
    "window_s": 25,
}
"""What the configuration below says; prices in pico-USD for a token."""

CONFIG = (
    """
drain_s = 3
[storage]
url = "{storage}"
min_free_bytes = 0
statement_timeout_s = 10
[log]
level = "debug"
[webhooks]
allow_private_addresses = true
max_attempts = 100
retry_base_s = 0.05
retry_cap_s = 0.5
[batches]
completion_window_s = {limits[window_s]}
max_attempts = {limits[attempts]}
max_unfinished_batches = {limits[unfinished_batches]}
max_unfinished_requests = {limits[unfinished_requests]}
max_uploads_per_hour = 100000
max_result_bytes = 100000
retry_base_s = 0.05
retry_cap_s = 0.5
retry_after_cap_s = 1
[tiers.internal]
batch_concurrency = {limits[account_concurrency]}
"""
    + ALL_BUT_CONSOLE
)
MODEL = """
[[models]]
id = "{name}"
endpoints = ["/v1/chat/completions", "/v1/embeddings", "/v1/responses", "/v1/messages"]
concurrency = {concurrency}
price_usd_per_million = {{ input = "3", output = "5" }}
[[models.upstreams]]
url = "{upstream}/v1"
model = "up-{name}"
endpoints = ["/v1/chat/completions", "/v1/embeddings"]
timeout_s = 2
"""


class Upstream(Process):
    """history/upstream.py in its process."""

    def __init__(self, folder: Path, seed: int, faults: float) -> None:
        command = [sys.executable, "-m", "history.upstream", str(folder), str(seed), str(faults)]
        paths = [str(HERE.parent), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
        super().__init__(*command, env={"PYTHONPATH": os.pathsep.join(paths)})
        assert self.process.stdout
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"


class Daemon(DaemonProcess):
    """A daemon whose disk, clock and limits can be spoilt."""

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(HERE / "launch.py"), *words, "--config", str(self.config)]


class Stand:
    """What a driver acts on and faults are done to. `daemon` is replaced when it is started again."""

    def __init__(self, folder: Path, storage: str, *, seed: int, faults: float = 0.12) -> None:
        self.folder = folder
        self.storage = storage
        self.database = storage
        """Where the rows are read in the end: not through what a test puts before a PostgreSQL."""
        self.histories = folder / "history"
        self.histories.mkdir()
        self.history = History(self.histories / "driver.jsonl")
        self.switches = Switches(folder / "switches")
        self.upstream = Upstream(self.histories, seed, faults)
        self._start: dict[str, Any] = {"env": {"FIBATCHD_SWITCHES": str(folder / "switches")}}
        self.processes: list[Process] = [self.upstream]
        self.daemon: Daemon

    def start(self) -> None:
        models = "".join(
            MODEL.format(name=name.removeprefix("up-"), concurrency=count, upstream=self.upstream.url)
            for name, count in LIMITS["concurrency"].items()
        )
        config = CONFIG.format(storage=self.storage, limits=LIMITS) + models
        self.daemon = Daemon(self.folder, config, **self._start)
        self.processes.append(self.daemon)

    def start_again(self) -> None:
        """Start the daemon, which has ended; it need not be ready yet."""
        self.daemon = self.daemon.start_again()  # type: ignore[assignment]
        self.processes.append(self.daemon)

    def command(self, *words: str) -> tuple[int, str]:
        """Run a command beside the daemon; its status and what it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                self.daemon.command(*words),
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
                env=os.environ | self.daemon.env,
            )
            return done.returncode, done.stdout.strip()
        return -1, ""

    def close(self) -> None:
        for process in reversed(self.processes):
            process.close()
        self.history.close()

    def wait_ready(self) -> None:
        """Wait until the daemon takes work; one that has ended, since it could not start, is started again."""
        end = time.monotonic() + 60
        while True:
            try:
                self.daemon.wait_ready()
                return
            except RuntimeError:
                assert time.monotonic() < end, self.daemon.output()[-3000:]
                if self.daemon.process.poll() is not None:
                    self.start_again()
