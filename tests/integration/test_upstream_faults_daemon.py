"""A running daemon and model servers that fail in every way: how each request ends, what it costs, who is left in peace."""

import json
import time

import pytest
from daemons import DaemonProcess, ModelServerProcess, chat, closing_all, finished, results, until

pytestmark = pytest.mark.slow

MAX_ATTEMPTS = 3
CONFIG = """
[storage]
min_free_bytes = 0
[batches]
max_attempts = 3
retry_base_s = 0.02
retry_cap_s = 0.05
"""
MODEL = """
[[models]]
id = "{id}"
concurrency = {concurrency}
price_usd_per_million = {{ input = "1", output = "2" }}
"""
UPSTREAM = """
[[models.upstreams]]
url = "{url}/v1"
model = "up-{id}"
timeout_s = 2
"""
COST = 20 / 1e6
"""What an answer of the model server costs, in dollars."""


def model(name, *servers, concurrency=8):
    upstreams = "".join(UPSTREAM.format(url=server.url, id=name) for server in servers)
    return MODEL.format(id=name, concurrency=concurrency) + upstreams


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    """A daemon with a model on a server that fails as it is told, and one on a server that does not; and a client."""
    with closing_all() as processes:
        faulty, sound = ModelServerProcess(), ModelServerProcess(delay=0.02)
        processes += [faulty, sound]
        text = CONFIG + model("m", faulty) + model("other", sound)
        daemon = DaemonProcess(tmp_path_factory.mktemp("faults"), text)
        processes.append(daemon)
        with daemon.client(daemon.new_key()) as client:
            yield faulty, sound, client


def create(client, *requests):
    answer = client.post("/v1/batches", json={"requests": list(requests)})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def asked(server, content):
    """When the server was asked this, in Unix seconds."""
    return [entry["at"] for entry in server.log_entries() if entry["content"] == content]


BROKEN = ("upstream_error", 502, MAX_ATTEMPTS, MAX_ATTEMPTS)
# action of the server -> error code, its status, attempts, those of unknown cost
FAULTS = {
    "400": ({"status": 400}, "invalid_request", 400, 1, 0),
    "401, our key is wrong": ({"status": 401}, "upstream_error", 502, MAX_ATTEMPTS, 0),
    "403": ({"status": 403}, "forbidden", 403, 1, 0),
    "404": ({"status": 404}, "model_not_found", 404, 1, 0),
    "408": ({"status": 408}, "timeout", 504, MAX_ATTEMPTS, MAX_ATTEMPTS),
    "409": ({"status": 409}, "invalid_request", 409, 1, 0),
    "413": ({"status": 413}, "invalid_request", 413, 1, 0),
    "418": ({"status": 418}, "invalid_request", 418, 1, 0),
    "422": ({"status": 422}, "invalid_request", 422, 1, 0),
    "429": ({"status": 429}, "rate_limited", 429, MAX_ATTEMPTS, 0),
    "500": ({"status": 500}, "upstream_error", 500, MAX_ATTEMPTS, 0),
    "502, a gateway gave up": ({"status": 502}, "upstream_error", 502, MAX_ATTEMPTS, MAX_ATTEMPTS),
    "503": ({"status": 503}, "service_unavailable", 503, MAX_ATTEMPTS, 0),
    "504, a gateway gave up": ({"status": 504}, "timeout", 504, MAX_ATTEMPTS, MAX_ATTEMPTS),
    "a redirect": ({"status": 302, "headers": {"location": "http://127.0.0.1:1/"}}, "upstream_error", 502, MAX_ATTEMPTS, 0),
    "closed before the answer": ({"close": "before"}, *BROKEN),
    "reset before the answer": ({"close": "reset"}, *BROKEN),
    "closed after the head": ({"close": "head"}, *BROKEN),
    "half a body": ({"close": "half"}, *BROKEN),
    "HTML with status 200": ({"body": "<html><body>It works!</body></html>"}, *BROKEN),
    "NaN": ({"body": '{"choices": [], "logprob": NaN}'}, *BROKEN),
    "a list": ({"body": "[]"}, *BROKEN),
    "nothing": ({"body": ""}, *BROKEN),
    "a hang": ({"hang": True}, "timeout", 504, MAX_ATTEMPTS, MAX_ATTEMPTS),
    "10 MiB": ({"big": 10 * 2**20}, "result_too_large", None, 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault(stand, fault):
    faulty, _, client = stand
    action, code, status, attempts, unknown = FAULTS[fault]
    faulty.control(rules=[{"match": f"{fault}!", "action": action}])
    contents = [f"{fault}!", *(f"{fault} is not here {number}" for number in range(4))]
    hit = create(client, *(chat(f"q{number}", content) for number, content in enumerate(contents)))
    spared = create(client, *(chat(f"q{number}", f"{fault} {number}", model="other") for number in range(4)))
    batch = finished(client, hit)
    first, *rest = results(client, hit)
    assert (first["status"], first["error"]["code"], first["error"].get("status")) == ("failed", code, status)
    assert "127.0.0.1" not in first["error"]["message"]
    assert "up-m" not in first["error"]["message"]
    assert len(asked(faulty, contents[0])) == attempts
    assert [result["status"] for result in rest] == ["completed"] * 4
    assert batch["request_counts"] == {"total": 5, "completed": 4, "failed": 1}
    assert batch["cost_unknown_attempts"] == unknown
    assert batch["cost_usd"] == pytest.approx(4 * COST)
    batch = finished(client, spared)
    assert (batch["request_counts"]["completed"], batch["cost_unknown_attempts"]) == (4, 0)


@pytest.mark.parametrize("fault", ["429", "503", "half a body", "reset before the answer", "HTML with status 200"])
def test_a_fault_that_passes(stand, fault):
    faulty, _, client = stand
    action, *_, unknown = FAULTS[fault]
    content = f"passing {fault}"
    faulty.control(rules=[{"match": content, "times": 2, "action": action}])
    batch = finished(client, create(client, chat("q", content)))
    assert batch["request_counts"]["completed"] == 1
    assert batch["cost_unknown_attempts"] == (2 if unknown else 0)
    assert batch["cost_usd"] == pytest.approx(COST)
    (result,) = results(client, batch["id"])
    assert result["response"]["body"]["choices"][0]["message"]["content"].startswith(content)
    assert result["error"] is None


PAUSE_S = 6
"""Long enough for what happens meanwhile on a machine that is busy."""


def test_a_429_with_retry_after_pauses_the_upstream_for_all(stand):
    faulty, _, client = stand
    faulty.control(
        rules=[{"match": "wait", "times": 1, "action": {"status": 429, "headers": {"retry-after": str(PAUSE_S)}}}]
    )
    first = create(client, chat("q", "wait"))
    told = until(lambda: asked(faulty, "wait"))
    second = create(client, *(chat(f"q{number}", f"meanwhile {number}") for number in range(20)))
    spared = finished(client, create(client, chat("q", "on the other", model="other")))
    assert time.time() < told[0] + PAUSE_S
    assert spared["request_counts"]["completed"] == 1
    interactive = client.post("/v1/chat/completions", json=chat("", "at once")["body"])
    assert interactive.status_code == 429
    assert PAUSE_S / 2 < int(interactive.headers["retry-after"]) <= PAUSE_S
    for batch_id in (first, second):
        batch = finished(client, batch_id)
        assert batch["request_counts"]["failed"] == batch["cost_unknown_attempts"] == 0
    log = faulty.log_entries()
    later = [entry["at"] for entry in log if entry["at"] > told[0]]
    assert min(later) >= told[0] + PAUSE_S
    assert len([entry for entry in log if entry["content"].startswith("meanwhile")]) == 20


def test_a_body_that_streams_and_breaks_ends_with_an_error_event(stand):
    faulty, _, client = stand
    faulty.control(rules=[{"match": "breaks", "action": {"close": "half"}}])
    body = chat("", "it breaks", stream=True)["body"]
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        text = answer.read().decode()
    assert answer.status_code == 200
    assert json.loads(text.strip().split("\n\n")[-1].removeprefix("data: "))["error"]["code"] == "upstream_error"


@pytest.fixture
def processes():
    with closing_all() as found:
        yield found


def test_an_upstream_dies_and_comes_back(tmp_path, processes):
    """What was in flight is lost and has spent an attempt; what waits spends none, and the other model goes on."""
    upstream, sound = ModelServerProcess(delay=0.3), ModelServerProcess(delay=0.05)
    processes += [upstream, sound]
    daemon = DaemonProcess(tmp_path, CONFIG + model("m", upstream, concurrency=8) + model("other", sound))
    processes.append(daemon)
    with daemon.client(daemon.new_key()) as client:
        batch_id = create(client, *(chat(f"q{number}", f"say {number}") for number in range(60)))
        before = until(lambda: len(found := upstream.log_entries()) >= 20 and found)
        upstream.close()
        spared = create(client, *(chat(f"q{number}", f"say {number}", model="other") for number in range(100)))
        assert finished(client, spared)["request_counts"]["completed"] == 100
        interactive = None
        while interactive is None or interactive.status_code != 503:
            interactive = client.post("/v1/chat/completions", json=chat("", "now")["body"])
        assert interactive.json()["error"]["code"] == "service_unavailable"
        time.sleep(2)  # an outage that takes its time
        waiting = client.get(f"/v1/batches/{batch_id}").json()
        assert waiting["request_counts"]["failed"] == 0
        upstream = ModelServerProcess(port=upstream.port)
        processes.append(upstream)
        batch = finished(client, batch_id)
        assert batch["request_counts"] == {"total": 60, "completed": 60, "failed": 0}
        assert batch["cost_unknown_attempts"] <= 8 + 5, "those in flight, and the first that found it gone"
        assert batch["usage"]["output_tokens"] == 60 * 5
        asked_again = [entry["content"] for entry in upstream.log_entries()]
        assert len(asked_again) == len(set(asked_again)) <= 60 - (len(before) - 8)
    events = [line["event"] for line in daemon.log_lines()]
    assert events.count("an upstream is out") == events.count("an upstream is back") == 1


def test_one_of_two_dies_and_comes_back(tmp_path, processes):
    one, two = ModelServerProcess(delay=0.1), ModelServerProcess(delay=0.1)
    processes += [one, two]
    daemon = DaemonProcess(tmp_path, CONFIG + model("m", one, two, concurrency=8))
    processes.append(daemon)
    with daemon.client(daemon.new_key()) as client:
        batch_id = create(client, *(chat(f"q{number}", f"say {number}") for number in range(800)))
        until(lambda: min(len(one.log_entries()), len(two.log_entries())) >= 20)
        one.close()
        died = time.time()
        until(lambda: len([entry for entry in two.log_entries() if entry["at"] > died]) >= 60)
        one = ModelServerProcess(delay=0.1, port=one.port)
        processes.append(one)
        batch = finished(client, batch_id)
        assert batch["request_counts"] == {"total": 800, "completed": 800, "failed": 0}
        assert batch["cost_unknown_attempts"] <= 8
        assert len(one.log_entries()) > 20, "it has its share again"
