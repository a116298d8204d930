"""The two upstreams. Neither may be what limits a figure: see ceiling.py.

nginx answers every request at once with the same completion, in compiled code. `LatencyMock` answers after a stated time,
jittered, at next to no CPU: tests/light_model.py.
"""

import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import light_model
from daemons import HERE, START_S, Process, free_port

BODY = light_model.BODY

_CONFIG = """
daemon off; master_process off; pid nginx.pid; error_log stderr error;
events {{ worker_connections 4096; }}
http {{
    access_log off; default_type application/json;
    keepalive_timeout 1h; keepalive_requests 1000000000; keepalive_time 24h;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location = /v1/chat/completions {{ return 200 '{body}'; }}
    }}
}}
"""


class _Upstream(Process):
    """One that listens on `port` of this machine."""

    port: int

    @property
    def url(self) -> str:
        """Where it is reached, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @classmethod
    @contextmanager
    def running(cls, *args: Any, **kwargs: Any) -> Iterator[Self]:
        """Run one for as long as the block does."""
        upstream = cls(*args, **kwargs)
        try:
            yield upstream
        finally:
            upstream.close()


class Nginx(_Upstream):
    """nginx in a folder of its own, one process."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("nginx") or "/usr/sbin/nginx"  # which is not on every user's path
        self.port = free_port()
        config = folder / "nginx.conf"
        config.write_text(_CONFIG.format(port=self.port, body=BODY.decode()))
        super().__init__(program, "-c", str(config), "-p", str(folder), log=folder / "nginx.log")
        self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                time.sleep(0.01)
            else:
                return
        raise RuntimeError(f"nginx did not start: {self.log.read_text() if self.log else ''}")


class LatencyMock(_Upstream):
    """Takes `delay` seconds for each answer, give or take the share `jitter` of it."""

    def __init__(self, *, delay: float, jitter: float = 0.2) -> None:
        super().__init__(sys.executable, str(HERE / "light_model.py"), str(delay), str(jitter))
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())
