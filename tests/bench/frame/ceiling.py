"""What an upstream can do at most: a client that parses nothing and counts bytes.

    python tests/bench/frame/ceiling.py PORT CONNECTIONS DEPTH SECONDS      prints requests a second

Each connection sends `DEPTH` requests in one write and waits for as many answers, which all have the same length. It costs so
little that the upstream is what it measures, or else the machine: a lower bound either way.
"""

import selectors
import socket
import subprocess
import sys
import time

_BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
_REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


def ceiling(port: int, *, connections: int, depth: int = 1, seconds: float = 1.0) -> float:
    """Return the requests a second of the server on `port`, asked by a process of its own."""
    command = [sys.executable, __file__, str(port), str(connections), str(depth), str(seconds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _answer_length(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(_REQUEST)
        answer = b""
        while b'"total_tokens"' not in answer or not answer.endswith(b"}}"):
            answer += peer.recv(65536)
    return len(answer)


def _ask(port: int, connections: int, depth: int, seconds: float) -> float:
    whole = _answer_length(port) * depth
    selector = selectors.DefaultSelector()
    missing: dict[socket.socket, int] = {}
    for _ in range(connections):
        peer = socket.create_connection(("127.0.0.1", port))
        selector.register(peer, selectors.EVENT_READ)
        missing[peer] = whole
        peer.sendall(_REQUEST * depth)
    began, rounds = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for key, _ in selector.select():
            peer = key.fileobj
            assert isinstance(peer, socket.socket)
            missing[peer] -= len(peer.recv(1 << 20))
            if missing[peer] == 0:
                rounds += 1
                missing[peer] = whole
                peer.sendall(_REQUEST * depth)
    return rounds * depth / (time.perf_counter() - began)


if __name__ == "__main__":
    print(_ask(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
