"""A daemon on a store of its own, before an upstream, and a client; all on this machine, all gone afterwards."""

import http.client
import json
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

import httpx2
from daemons import DaemonProcess

from frame import database

FOLDER = Path(__file__).parents[3] / ".bench"
"""What a daemon must make durable is on the repository's own disk: a temporary folder may be in memory."""
NOWHERE = "http://127.0.0.1:9"
"""The upstream where no model is asked anything."""
ASK_S = 0.25
SOON_S = 0.02

_CONFIG = """
plugin_dir = "{plugins}"
[storage]
url = "{storage}"
min_free_bytes = 0
[extensions]
files = true
[tiers.internal]
batch_concurrency = {concurrency}
[[models]]
id = "m"
concurrency = {concurrency}
price_usd_per_million = {{ input = "1", output = "2" }}
[[models.upstreams]]
url = "{upstream}/v1"
max_connections = 4096
"""


@dataclass(frozen=True)
class Sent:
    """A call that was made: its answer, and between which moments (Unix time)."""

    answer: dict[str, Any]
    began: float
    ended: float

    @property
    def took_s(self) -> float:
        """Seconds until the answer was there."""
        return self.ended - self.began


class Times(NamedTuple):
    """Unix times. `finalizing` is when the last request was over; what has no files to write has then ended, too."""

    created: float
    began: float
    finalizing: float
    ended: float


@dataclass
class Stand:
    """`server` is the handle of the PostgreSQL that is this stand's own, None on SQLite."""

    daemon: DaemonProcess
    client: httpx2.Client
    key: str
    folder: Path
    server: Any
    stack: ExitStack

    @property
    def process(self) -> Popen[str]:
        """The daemon's process."""
        return self.daemon.process

    def upload(self, lines: Iterable[dict[str, Any]]) -> str:
        """Upload an input file and return its id."""
        text = "\n".join(json.dumps(line) for line in lines)
        answer = self.client.post("/v1/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", text.encode())})
        return str(answer.raise_for_status().json()["id"])

    def get(self, path: str) -> Sent:
        """GET a path by the same client as `send`."""
        return self._call("GET", path, None, {})

    def send(self, path: str, body: bytes, content_type: str = "application/json") -> Sent:
        """POST a body that is ready beforehand, by a client that adds next to nothing to the time it takes."""
        return self._call("POST", path, body, {"content-type": content_type})

    def _call(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Sent:
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port)
        began = time.time()
        connection.request(method, path, body, {"authorization": f"Bearer {self.key}"} | headers)
        with connection.getresponse() as answer:
            text = answer.read()
        ended = time.time()
        connection.close()
        assert answer.status == 200, text
        return Sent(json.loads(text), began, ended)

    def create(self, file_id: str) -> str:
        """Create a batch of an uploaded file and return its id."""
        call = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        return str(self.client.post("/v1/batches", json=call).raise_for_status().json()["id"])

    def run_file(self, file_id: str) -> str:
        """Run a batch of an uploaded file to its end and return its id."""
        batch_id = self.create(file_id)
        self.wait_for(batch_id)
        return batch_id

    def status(self, batch_id: str) -> str:
        """Return a batch's status."""
        return str(self.client.get(f"/v1/batches/{batch_id}").raise_for_status().json()["status"])

    def wait_until(self, batch_id: str, status: str, timeout: float = 60) -> None:
        """Wait until a batch has this status."""
        deadline = time.monotonic() + timeout
        while self.status(batch_id) != status:
            assert time.monotonic() < deadline
            time.sleep(SOON_S)

    def longest_hold(self) -> tuple[float, float]:
        """Return for how long the event loop was held at most since this was last asked: seconds, and of CPU time."""
        told = self.client.get("/v1/bench/longest-hold").raise_for_status().json()
        return float(told["seconds"]), float(told["cpu_s"])

    def of_another_account(self) -> "Stand":
        """Return the same daemon as another account's client sees it."""
        key = self.daemon.new_key()
        return replace(self, key=key, client=self.stack.enter_context(self.daemon.client(key)))

    def wait_for(self, batch_id: str, timeout: float = 600) -> None:
        """Wait until all of a batch is completed; asks seldom, for each question costs the daemon time."""
        deadline = time.monotonic() + timeout
        while True:
            batch = self.client.get(f"/v1/batches/{batch_id}").raise_for_status().json()
            if batch["status"] not in ("validating", "in_progress", "finalizing"):
                break
            assert time.monotonic() < deadline, batch
            time.sleep(ASK_S)
        counts = batch["request_counts"]
        assert batch["status"] == "completed", batch
        assert counts["completed"] == counts["total"], batch

    @property
    def database_pid(self) -> int:
        """The process of the database's server; on SQLite the daemon's own."""
        return int(self.server.get_pid()) if self.server is not None else self.process.pid

    def times(self, batch_id: str) -> Times:
        """Return when a batch went from state to state, from the database: the API tells whole seconds."""
        sql = f"SELECT created_at, in_progress_at, finalizing_at, ended_at FROM batches WHERE id = '{batch_id}'"
        created, began, finalizing, ended = database.row(self, sql)
        return Times(float(created), float(began), float(finalizing or ended), float(ended))


@contextmanager
def stand(upstream: str, *, concurrency: int, store: str = "sqlite", more: str = "") -> Iterator[Stand]:
    """Start a daemon before the upstream at this URL; `store` is "sqlite" or "postgresql", a durable server of its own.
    `more` is added to its configuration."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        server, storage = None, "sqlite:fibatchd.db"
        if store == "postgresql":
            import databases  # it patches asyncio for the whole process

            server = stack.enter_context(databases.own_server(durable=True))
            storage = server.get_uri()
        plugins = folder / "plugins"
        plugins.mkdir()
        shutil.copy(Path(__file__).with_name("loop_watch.py"), plugins)
        config = _CONFIG.format(plugins=plugins, storage=storage, upstream=upstream, concurrency=concurrency)
        config += more
        daemon = DaemonProcess(folder, config)
        stack.callback(daemon.close)
        key = daemon.new_key()
        yield Stand(daemon, stack.enter_context(daemon.client(key)), key, folder, server, stack)


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder on the repository's disk, for as long as the block runs."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        yield Path(folder)


def tiny(count: int) -> list[dict[str, Any]]:
    """Return the lines of an input file of so many tiny requests."""
    return [
        {"custom_id": f"q-{number}", "method": "POST", "url": "/v1/chat/completions", "body": tiny_body(number)}
        for number in range(count)
    ]


def tiny_body(number: int) -> dict[str, Any]:
    """Return one of their bodies."""
    return {"model": "m", "messages": [{"role": "user", "content": f"say {number}"}]}


def bodies_file(folder: Path, count: int) -> Path:
    """Write the same bodies for the bare loop."""
    path = folder / "bodies.jsonl"
    path.write_text("\n".join(json.dumps(tiny_body(number)) for number in range(count)))
    return path
