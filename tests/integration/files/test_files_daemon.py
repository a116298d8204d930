"""A real daemon with file batches: killed in the middle, stopped in the middle, two on one database; and its memory."""

import json
import signal

import daemons
import psutil
import pytest
from daemons import DaemonProcess, finished

MIB = 2**20
CONFIG = """
[storage]
url = "{storage}"
min_free_bytes = 0
[extensions]
files = true
[batches]
max_uploads_per_hour = 1000
retry_base_s = 0.01
[[models]]
id = "m"
concurrency = 256
[[models.upstreams]]
url = "echo:"
"""

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request):
    return "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("empty_postgres")


@pytest.fixture
def processes():
    with daemons.closing_all() as found:
        yield found


def start(folder, processes, storage, config=CONFIG):
    folder.mkdir(exist_ok=True)
    daemon = DaemonProcess(folder, config.format(storage=storage))
    processes.append(daemon)
    return daemon


def jsonl(count, size=600):
    """Lines of `size` bytes each, their newline included."""
    lines = []
    for number in range(count):
        body = {"model": "m", "messages": [{"role": "user", "content": ""}]}
        item = {"custom_id": f"q-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        body["messages"][0]["content"] = "x" * (size - 1 - len(json.dumps(item)))
        lines.append(json.dumps(item).encode() + b"\n")
    return b"".join(lines)


def upload(client, content):
    answer = client.post("/v1/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", content)})
    return answer.raise_for_status().json()


def create(client, content):
    body = {
        "input_file_id": upload(client, content)["id"],
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
    }
    return client.post("/v1/batches", json=body).raise_for_status().json()


def reached(client, batch, *statuses):
    """The batch, once its status is one of these."""

    def look():
        found = client.get(f"/v1/batches/{batch['id']}").raise_for_status().json()
        return found["status"] in statuses and found

    return daemons.until(look)


def check_output(client, batch, count):
    assert (batch["status"], batch["request_counts"]["completed"], batch["error_file_id"]) == ("completed", count, None)
    text = client.get(f"/v1/files/{batch['output_file_id']}/content").raise_for_status().text
    assert [json.loads(line)["custom_id"] for line in text.splitlines()] == [f"q-{number}" for number in range(count)]
    listed = client.get("/v1/files", params={"purpose": "batch_output"}).json()["data"]
    assert [file["id"] for file in listed] == [batch["output_file_id"]]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_daemon_ended_while_validating_starts_over(tmp_path, processes, storage, how):
    daemon = start(tmp_path, processes, storage)
    key = daemon.new_key()
    content = jsonl(8_000)
    with daemon.client(key) as client:
        batch = create(client, content)
    assert batch["status"] == "validating"
    daemon.signal(how)
    daemon.wait()
    daemon = daemon.restart()
    processes.append(daemon)
    with daemon.client(key) as client:
        assert client.get(f"/v1/batches/{batch['id']}").json()["status"] != "failed"
        check_output(client, finished(client, batch["id"], timeout=180), 8_000)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_daemon_ended_while_finalizing_starts_over(tmp_path, processes, storage, how):
    daemon = start(tmp_path, processes, storage)
    key = daemon.new_key()
    with daemon.client(key) as client:
        # A machine that is fast enough has it completed by now; then that is what must stay.
        batch = reached(client, create(client, jsonl(5_000)), "finalizing", "completed")
    daemon.signal(how)
    daemon.wait()
    daemon = daemon.restart()
    processes.append(daemon)
    with daemon.client(key) as client:
        check_output(client, finished(client, batch["id"], timeout=180), 5_000)


def test_another_daemon_takes_over(tmp_path, processes, empty_postgres):
    first = start(tmp_path / "one", processes, empty_postgres)
    key = first.new_key()
    with first.client(key) as client:
        batch = create(client, jsonl(8_000))
    first.signal(signal.SIGKILL)
    first.wait()
    second = start(tmp_path / "two", processes, empty_postgres)
    with second.client(key) as client:
        check_output(client, finished(client, batch["id"], timeout=180), 8_000)


def test_a_file_is_served_by_the_daemon_that_did_not_write_it(tmp_path, processes, empty_postgres):
    first, second = (start(tmp_path / name, processes, empty_postgres) for name in ("one", "two"))
    key = first.new_key()
    with first.client(key) as one, second.client(key) as other:
        file = upload(one, b"x" * 3 * MIB)
        assert other.get(f"/v1/files/{file['id']}/content").content == b"x" * 3 * MIB
        assert other.delete(f"/v1/files/{file['id']}").status_code == 200
        assert one.get(f"/v1/files/{file['id']}").status_code == 404


def test_an_upload_cut_by_a_kill_leaves_nothing(tmp_path, processes):
    daemon = start(tmp_path, processes, "sqlite:fibatchd.db")
    key = daemon.new_key()

    def body():
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + b"x" * 2 * MIB
        daemon.signal(signal.SIGKILL)
        daemon.wait()
        yield b"x"

    headers = {"content-type": "multipart/form-data; boundary=b"}
    with daemon.client(key) as client, pytest.raises(daemons.httpx2.TransportError):
        client.post("/v1/files", content=body(), headers=headers)
    daemon = daemon.restart()
    processes.append(daemon)
    with daemon.client(key) as client:
        assert client.get("/v1/files").json()["data"] == []
        daemons.until(lambda: rows(tmp_path / "fibatchd.db", "SELECT COUNT(*) FROM file_chunks") == [(0,)])


def rows(path, sql):
    import apsw

    with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as connection:
        return list(connection.execute(sql))


class Peak:
    """The most memory that a process had while the block ran, beyond what it had before; in MiB."""

    def __init__(self, process):
        import threading

        self._process = psutil.Process(process.process.pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._before = self._most = self._process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _watch(self):
        while not self._stop.wait(0.005):
            self._most = max(self._most, self._process.memory_info().rss)

    @property
    def more(self):
        return (self._most - self._before) / MIB


def test_memory_does_not_grow_with_an_upload(tmp_path, processes):
    daemon = start(tmp_path, processes, "sqlite:fibatchd.db")
    with daemon.client(daemon.new_key()) as client:
        with Peak(daemon) as peak:
            file = upload(client, b"x" * 32 * MIB)
        assert file["bytes"] == 32 * MIB
        assert peak.more < 10, peak.more
        with Peak(daemon) as peak:
            upload(client, b"x" * 32 * MIB)
        assert peak.more < 4, peak.more


def test_memory_does_not_grow_with_a_batch(tmp_path, processes):
    """50,000 lines of 600 bytes, from the upload to the download."""
    daemon = start(tmp_path, processes, "sqlite:fibatchd.db")
    with daemon.client(daemon.new_key()) as client:
        small = finished(client, create(client, jsonl(500))["id"])
        assert small["status"] == "completed"
        with Peak(daemon) as peak:
            batch = finished(client, create(client, jsonl(50_000))["id"], timeout=300)
            size = 0
            with client.stream("GET", f"/v1/files/{batch['output_file_id']}/content") as answer:
                for piece in answer.iter_raw():
                    size += len(piece)
        assert batch["request_counts"] == {"total": 50_000, "completed": 50_000, "failed": 0}
        assert size > 30 * MIB
        assert peak.more < 45, peak.more
