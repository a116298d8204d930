"""Real processes for tests: a daemon on a configuration of the test's, and model servers that it dispatches to."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from fibatchd.cli.opening import Opened, run
from fibatchd.store import accounts

HERE = Path(__file__).parent
T = TypeVar("T")

START_S = 120
"""Far more than a start or an end takes, for a machine that is busy; one that ends while it starts is noticed at once."""

QUOTED = re.compile(r'\\*"(role|choices|embedding|content)\\*":|chatcmpl')
"""What stands in prompts and answers, be they JSON or a text in it: no log of any test's daemon may hold it."""

ALL_BUT_CONSOLE = """
[extensions]
files = true
message_batches = true
embeddings = true
responses = true
webhooks = true
"""
ALL_EXTENSIONS = ALL_BUT_CONSOLE + "console = true\n"


class Process:
    """A child process that a test talks to and may signal."""

    def __init__(self, *command: str, env: dict[str, str] | None = None, log: Path | None = None) -> None:
        self.log = log
        # Without a file its own complaints go to the test's output.
        self._stderr = log.open("ab") if log else None
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._stderr, env={**os.environ, **(env or {})}, text=True
        )

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, timeout: float = START_S) -> int:
        return self.process.wait(timeout)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        if self._stderr:
            self._stderr.close()


class ModelServerProcess(Process):
    """tests/model_server.py in its process."""

    def __init__(self, *, delay: float = 0.0, jitter: float = 0.0, port: int = 0) -> None:
        command = [sys.executable, str(HERE / "model_server.py"), f"--delay={delay}", f"--jitter={jitter}"]
        super().__init__(*command, f"--port={port}")
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def control(self, **settings: Any) -> None:
        httpx2.post(f"{self.url}/control", json=settings).raise_for_status()

    def log_entries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx2.get(f"{self.url}/log", timeout=60).json()
        return found

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx2.get(f"{self.url}/stats", timeout=60).json()
        return found


class DaemonProcess(Process):
    """`fibatchd serve` on `config`, in `folder`. Its port is fixed by the first start, so that it can start again."""

    def __init__(
        self,
        folder: Path,
        config: str,
        *,
        port: int | None = None,
        env: dict[str, str] | None = None,
        wait: bool = True,
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.config = folder / "fibatchd.toml"
        head = f'[server]\nlisten = ["127.0.0.1:{self.port}"]\ndata_dir = "{folder}"\n'
        # What a test's configuration says of [server] follows this head.
        if "[metrics]" not in config:  # the default address is free for one daemon of a machine
            config += '\n[metrics]\nlisten = ""\n'
        self.config.write_text(head + config)
        self.base = f"http://127.0.0.1:{self.port}"
        self.env = env or {}
        self.keys: list[str] = []
        """Keys that were made here: its log must not hold one."""
        super().__init__(*self.command("serve"), env=self.env, log=folder / "daemon.log")
        if wait:
            try:
                self.wait_ready()
            except BaseException:
                self.close()
                raise

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "fibatchd", *words, "--config", str(self.config)]

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the daemon ended: {self.output()[-3000:]}")
            try:
                if httpx2.get(f"{self.base}/readyz", timeout=5).status_code == 200:
                    return
            except httpx2.TransportError:
                pass
            time.sleep(0.02)  # another process' start can only be polled
        raise RuntimeError(f"the daemon did not become ready: {self.output()[-3000:]}")

    def start_again(self) -> "DaemonProcess":
        """Start it again, on the same data, after it has ended; it may not be ready yet."""
        self.close()
        again: DaemonProcess = object.__new__(type(self))
        again.__dict__.update(self.__dict__)
        Process.__init__(again, *self.command("serve"), env=self.env, log=self.folder / "daemon.log")
        return again

    def restart(self) -> "DaemonProcess":
        """Start it again, and wait until it takes work."""
        again = self.start_again()
        again.wait_ready()
        return again

    def run(self, *words: str) -> str:
        done = subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **self.env},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def new_key(self, tier: str = "internal") -> str:
        """A key of a new account, made beside the daemon as the command line does, without two more processes."""

        async def work(opened: Opened) -> str:
            account = await opened.store.write(accounts.create_account, "test", tier)
            made = await opened.store.write(accounts.create_key, account.id)
            assert made
            return made[1]

        self.keys.append(run(self.config, work))
        return self.keys[-1]

    def client(self, key: str) -> httpx2.Client:
        return httpx2.Client(base_url=self.base, headers={"Authorization": f"Bearer {key}"}, timeout=120)

    def output(self) -> str:
        assert self.log
        return self.log.read_text() if self.log.exists() else ""

    def log_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output().splitlines() if line.startswith("{")]

    def terminate(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()


def until(reached: Callable[[], T], *, within: float = START_S) -> T:
    """Wait until something is true of another process, whose progress can only be polled; return it."""
    deadline = time.monotonic() + within
    while not (found := reached()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def closing_all() -> Iterator[list[Process]]:
    """Close every process put into the list, however the test ends."""
    processes: list[Process] = []
    try:
        yield processes
    finally:
        for process in reversed(processes):
            process.close()
    for process in processes:
        if isinstance(process, DaemonProcess):
            log = process.output()
            assert not [key for key in process.keys if key in log], "a key is in the log"
            assert not QUOTED.search(log), "a prompt or an answer is in the log"


def chat(custom_id: str, content: str, model: str = "m", **more: Any) -> dict[str, Any]:
    """One request of an inline batch."""
    return {"custom_id": custom_id, "body": {"model": model, "messages": [{"role": "user", "content": content}]} | more}


def finished(client: httpx2.Client, batch_id: str, *, timeout: float = 60) -> dict[str, Any]:
    """Poll a batch until it is final."""
    deadline = time.monotonic() + timeout
    while True:
        batch: dict[str, Any] = client.get(f"/v1/batches/{batch_id}").raise_for_status().json()
        if batch["status"] in ("completed", "failed", "expired", "cancelled"):
            return batch
        assert time.monotonic() < deadline, batch
        time.sleep(0.02)  # the API is polled, as its users do


def results(client: httpx2.Client, batch_id: str) -> list[dict[str, Any]]:
    """All results, page by page."""
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        page = client.get(f"/v1/batches/{batch_id}/results", params={"limit": 1000} | after).raise_for_status().json()
        found += page["data"]
        if not page["has_more"]:
            return found
        after = {"after": page["last_id"]}
