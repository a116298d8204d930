"""A webhook receiver for tests of real daemons: a server in a thread of the test's own process, so that it outlives them."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Post:
    """One delivery. `at` is the monotonic time when it was whole."""

    at: float
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class HookReceiver:
    """Takes deliveries into `posts` and gives its `answer`, a status and its reason; with `holding`, only to those of batches
    that were `release`d."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.answer = (204, "No Content")
        self.holding = False
        self._released: set[str] = set()
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def _handler(outer) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                body = self.rfile.read(size)
                if len(body) < size:  # the daemon was killed while it sent
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                post = Post(time.monotonic(), self.path, headers, body)
                with outer._changed:
                    outer.posts.append(post)
                    outer._changed.notify_all()
                    outer._changed.wait_for(lambda: outer.may_answer(post), 60)
                with contextlib.suppress(ConnectionError):  # the daemon may be dead by now
                    self.send_response(*outer.answer)
                    self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def may_answer(self, post: Post) -> bool:
        return not self.holding or post.event["data"].get("id") in self._released

    def release(self, batch_id: str) -> None:
        """Answer what is sent of a batch."""
        with self._changed:
            self._released.add(batch_id)
            self._changed.notify_all()

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        with self._changed:
            self.holding = False
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def event_of(self, batch_id: str, timeout: float = 60) -> Post:
        """The first delivery that tells of a batch, once there is one."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                for post in self.posts:
                    if post.event["data"].get("id") == batch_id:
                        return post
                left = deadline - time.monotonic()
                assert left > 0, f"no event of {batch_id} came; {len(self.posts)} others did"
                self._changed.wait(left)


@contextmanager
def hook_receiver() -> Iterator[HookReceiver]:
    """Serve for as long as the block runs."""
    receiver = HookReceiver()
    thread = threading.Thread(target=receiver.serve, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.close()
        thread.join()
