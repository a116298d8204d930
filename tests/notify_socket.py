"""A service manager's side of the notify protocol: a real datagram socket that a daemon sends to."""

import contextlib
import socket
import time


class NotifySocket:
    """Collects states in order; `env` is what the daemon's environment needs."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self.env = {"NOTIFY_SOCKET": "@" + path[1:] if path.startswith("\0") else path}
        self.messages = []

    def receive(self, timeout):
        """The next message, as a dictionary; None where none comes in time."""
        self._socket.settimeout(timeout)
        try:
            text = self._socket.recv(4096).decode()
        except TimeoutError:
            return None
        message = dict(line.split("=", 1) for line in text.split("\n"))
        self.messages.append(message)
        return message

    def until(self, timeout=30, **states):
        """The first message that has these states."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            message = self.receive(left)
            if message is not None and states.items() <= message.items():
                return message
        raise AssertionError(f"no {states} came; {self.messages} did")

    def drain(self):
        """Drop what has come so far."""
        while self.receive(0.001) is not None:
            pass

    def close(self):
        self._socket.close()


@contextlib.contextmanager
def notify_socket(path):
    """Listen for as long as the block runs."""
    listening = NotifySocket(str(path))
    try:
        yield listening
    finally:
        listening.close()
