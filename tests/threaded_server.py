"""What the model servers in a thread of the test's process share: how a request is read, how an answer or a stream leaves."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Sent:
    """One request as it came: path, headers in lower case, body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Handler(BaseHTTPRequestHandler):
    """Answers every POST with `answer`, which a server defines; connections are kept."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, sent: Sent) -> None:
        raise NotImplementedError

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.answer(Sent(self.path, {name.lower(): value for name, value in self.headers.items()}, body))

    def send(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, events: list[bytes]) -> None:
        """Send server-sent events, each at once; an empty one breaks the answer off."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            if not event:
                self.close_connection = True
                return
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextmanager
def serving(handler: type[Handler]) -> Iterator[str]:
    """The URL of a server that answers by `handler`, for as long as the block runs."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
