"""How long it takes from the call of the command until `GET /readyz` says so, on a new store: from the sources, and by the
one-file binary where `make binary` has made it."""

import http.client
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from daemons import ALL_EXTENSIONS, free_port
from frame.row import Figure, Row
from frame.stand import scratch

BINARY = Path(__file__).parents[3] / "dist/fibatchd"
ASK_S = 0.005
GIVEN_UP_S = 60

_CONFIG = (
    """
[server]
listen = ["127.0.0.1:{port}"]
data_dir = "{folder}"
[storage]
min_free_bytes = 0
[metrics]
listen = ""
[[models]]
id = "m"
[[models.upstreams]]
url = "http://127.0.0.1:9/v1"
"""
    + ALL_EXTENSIONS
)


def measure() -> Mapping[str, float]:
    found = {"start": ready_s([sys.executable, "-m", "fibatchd"])}
    if BINARY.exists():
        found["start_binary"] = ready_s([str(BINARY)])
    return found


def ready_s(command: Sequence[str]) -> float:
    """Return the seconds until the daemon was ready."""
    with scratch() as folder:
        port = free_port()
        config = folder / "fibatchd.toml"
        config.write_text(_CONFIG.format(port=port, folder=folder))
        with (folder / "daemon.log").open("wb") as log:
            began = time.perf_counter()
            daemon = subprocess.Popen([*command, "serve", "--config", str(config)], stdout=log, stderr=log)
            try:
                while not is_ready(port):
                    assert daemon.poll() is None, (folder / "daemon.log").read_text()
                    assert time.perf_counter() - began < GIVEN_UP_S
                    time.sleep(ASK_S)
                return time.perf_counter() - began
            finally:
                daemon.kill()
                daemon.wait()


def is_ready(port: int) -> bool:
    """Whether the daemon answers that it is ready."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


ROW = Row(
    "start",
    (Figure("start", "Start to ready", at_most=1, unit="s"),)
    + (
        (Figure("start_binary", "Start to ready, the one-file binary", at_most=2, unit="s"),) if BINARY.exists() else ()
    ),
    measure,
)
