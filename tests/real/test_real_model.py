"""The main flows against a real language model: `make test-real`."""

import json

import pytest
from daemons import DaemonProcess, chat, closing_all, finished, free_port, results
from llama import INSTALLED, MODEL, model_server

pytestmark = pytest.mark.real

CONFIG = """
[metrics]
listen = ""
[storage]
min_free_bytes = 0
[batches]
retry_base_s = 0.2
retry_cap_s = 2
[[models]]
id = "real"
concurrency = 8
price_usd_per_million = { input = "1", output = "2" }
upstreams = [{ url = "URL", model = "MODEL", timeout_s = 300 }]
"""


@pytest.fixture(scope="module")
def port():
    if not INSTALLED.exists():
        pytest.skip("the model is not installed; `make test-real` does that")
    return free_port()


@pytest.fixture
def llama(port, tmp_path):
    with model_server(port, tmp_path / "llama.log") as url:
        yield url


@pytest.fixture
def daemon(port, tmp_path):
    config = CONFIG.replace("URL", f"http://127.0.0.1:{port}/v1").replace("MODEL", MODEL)
    with closing_all() as processes:
        processes.append(daemon := DaemonProcess(tmp_path, config))
        yield daemon


@pytest.fixture
def client(daemon):
    with daemon.client(daemon.new_key()) as client:
        yield client


def create(client, requests):
    made = client.post("/v1/batches", json={"requests": requests})
    assert made.status_code == 200, made.text
    return made.json()["id"]


def questions(total, **more):
    return [chat(f"q-{n}", f"What is {n} plus one?", "real", max_tokens=8, **more) for n in range(total)]


def test_a_batch_of_200(llama, client):
    batch = finished(client, create(client, questions(200)), timeout=900)
    assert batch["request_counts"] == {"total": 200, "completed": 200, "failed": 0}
    assert batch["cost_unknown_attempts"] == 0
    usage = batch["usage"]
    assert usage["input_tokens"] > 200 * 5
    assert batch["cost_usd"] == pytest.approx((usage["input_tokens"] + 2 * usage["output_tokens"]) / 1e6)
    found = results(client, batch["id"])
    assert [result["custom_id"] for result in found] == [f"q-{n}" for n in range(200)]
    for result in found:
        assert result["response"]["body"]["model"] == "real"
        assert isinstance(result["response"]["body"]["choices"][0]["message"]["content"], str)


def test_streaming(llama, client):
    body = chat("", "Count to five.", "real", max_tokens=16, stream=True)["body"]
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert {chunk["model"] for chunk in chunks} == {"real"}
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
    assert text.strip()


def test_what_the_model_cannot_do(llama, client):
    """A parameter that only the model's server judges, which it calls a fault of its own (500), and a prompt beyond its
    context: each ends alone, as an error that says nothing of the server."""
    requests = [
        chat("good", "Hello", "real", max_tokens=4),
        chat("bad", "Hello", "real", max_tokens=4, top_k="many"),
        chat("long", "word " * 20_000, "real", max_tokens=4),
    ]
    batch = finished(client, create(client, requests), timeout=120)
    assert batch["request_counts"] == {"total": 3, "completed": 1, "failed": 2}
    good, bad, long = results(client, batch["id"])
    assert good["status"] == "completed"
    assert bad["error"] == {"code": "upstream_error", "message": "The model's server failed", "status": 500}
    assert (long["error"]["code"], long["error"]["status"]) == ("invalid_request", 400)
    assert "context length" in long["error"]["message"]


def test_the_model_is_killed_and_comes_back(port, client, tmp_path):
    with model_server(port, tmp_path / "first.log"):
        batch_id = create(client, questions(60))
        while client.get(f"/v1/batches/{batch_id}").json()["request_counts"]["completed"] < 10:
            pass
    assert client.get(f"/v1/batches/{batch_id}").json()["status"] == "in_progress"
    with model_server(port, tmp_path / "second.log"):
        batch = finished(client, batch_id, timeout=300)
    assert batch["request_counts"] == {"total": 60, "completed": 60, "failed": 0}
    assert 0 <= batch["cost_unknown_attempts"] <= 8 * 2
