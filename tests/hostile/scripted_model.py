"""A model server that sends what a test tells it to send, byte for byte, whatever it was asked."""

import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

BODY = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
)
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def answer(body: bytes, *, status: int = 200, headers: bytes = b"content-type: application/json\r\n") -> bytes:
    """A well-formed answer."""
    return b"HTTP/1.1 %d X\r\n%bcontent-length: %d\r\n\r\n%b" % (status, headers, len(body), body)


class ScriptedModel:
    """Sends `script(socket)` to each request once that has come; the default is a completion. A thread a connection."""

    def __init__(self) -> None:
        self.script: Callable[[socket.socket], object] = self.usual
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @staticmethod
    def usual(connection: socket.socket) -> bool:
        connection.sendall(answer(BODY))
        return True

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Keep the connection for as long as the script says so, by what it returns."""
        with connection, suppress(OSError):
            connection.settimeout(60)
            while self._receive(connection) and self.script(connection):
                pass

    @staticmethod
    def _receive(connection: socket.socket) -> bool:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (data := connection.recv(65536)):
                return False
            head += data
        head, _, begun = head.partition(b"\r\n\r\n")
        found = LENGTH.search(head)
        left = (int(found[1]) if found else 0) - len(begun)
        while left > 0:
            if not (data := connection.recv(1 << 20)):
                return False
            left -= len(data)
        return True
