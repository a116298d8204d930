"""A client that leaves at every byte of what it uploads: nothing of it is there afterwards, and nothing is held for it."""

import json
import socket
import struct

import psutil
import pytest
from daemons import DaemonProcess, ModelServerProcess, chat

CONFIG = """
[storage]
url = "{storage}"
min_free_bytes = 0
[extensions]
files = true
[batches]
max_unfinished_batches = 1000
[[models]]
id = "m"
upstreams = [{{ url = "{upstream}/v1" }}]
"""
SIZE = 2048
BOUNDARY = "b0undary"


def inline():
    requests = [chat("q0", "x" * (SIZE - 200))]
    return "/v1/batches", "application/json", json.dumps({"requests": requests}).encode()


def upload():
    line = json.dumps(chat("q0", "x" * (SIZE - 500)) | {"method": "POST", "url": "/v1/chat/completions"})
    parts = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{line}\n\r\n--{BOUNDARY}--\r\n'
    )
    return "/v1/files", f"multipart/form-data; boundary={BOUNDARY}", parts.encode()


def leave(port, data, *, rudely):
    """Send and leave: by an end of the stream, or by a reset."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(data)
        if rudely:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def leaves_at_every_byte(tmp_path, processes, storage, what):
    upstream = ModelServerProcess()
    processes.append(upstream)
    daemon = DaemonProcess(tmp_path, CONFIG.format(storage=storage, upstream=upstream.url))
    processes.append(daemon)
    key = daemon.new_key()
    path, kind, body = what()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    assert SIZE * 0.9 < len(body) < SIZE * 1.2
    request = head.encode() + body
    process = psutil.Process(daemon.process.pid)
    with daemon.client(key) as client:
        client.get(path).raise_for_status()
        before = process.num_fds()
        for length in range(1, len(request)):
            leave(daemon.port, request[:length], rudely=length % 2)
        assert client.get(path).raise_for_status().json()["data"] == []
        assert process.num_fds() <= before + 20
        answer = client.post(path, content=body, headers={"content-type": kind})
        assert answer.status_code == 200, answer.text
        assert [item["id"] for item in client.get(path).json()["data"]] == [answer.json()["id"]]
    assert not [line for line in daemon.log_lines() if line["level"] == "error"]
    assert daemon.terminate() == 0


@pytest.mark.slow
@pytest.mark.parametrize("what", [inline, upload])
def test_a_client_that_leaves_at_every_byte(tmp_path, processes, what):
    leaves_at_every_byte(tmp_path, processes, "sqlite:fibatchd.db", what)


@pytest.mark.torture
@pytest.mark.parametrize("what", [inline, upload])
def test_a_client_that_leaves_at_every_byte_on_postgres(tmp_path, processes, empty_postgres, what):
    leaves_at_every_byte(tmp_path, processes, empty_postgres, what)
