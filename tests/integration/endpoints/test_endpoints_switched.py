"""The switches of embeddings and Responses: what creating says while they are off, and that all else goes on."""

from dataclasses import replace

import pytest
from api import chat, serving, success

MODELS = """
[[models]]
id = "embed"
endpoints = ["/v1/embeddings"]
upstreams = [{ url = "http://127.0.0.1:9/v1" }]
[[models]]
id = "talk"
endpoints = ["/v1/responses"]
upstreams = [{ url = "http://127.0.0.1:9/v1", endpoints = ["/v1/chat/completions"] }]
[[models]]
id = "mute"
endpoints = ["/v1/responses", "/v1/embeddings"]
upstreams = [{ url = "http://127.0.0.1:9/v1", endpoints = ["/v1/chat/completions"] }]
"""
BOTH = "[extensions]\nembeddings = true\nresponses = true\n"
EMBEDDING = {"custom_id": "e", "url": "/v1/embeddings", "body": {"model": "embed", "input": "x"}}
RESPONSE = {"custom_id": "r", "url": "/v1/responses", "body": {"model": "talk", "input": "x"}}
ANSWER = b'{"object":"list","data":[{"embedding":[0.10,\n-1e-3]}],"output":[]}'


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request):
    """An empty database of each kind."""
    return "sqlite:fibatchd.db" if request.param == "sqlite" else request.getfixturevalue("empty_postgres")


@pytest.fixture
async def api(tmp_path, store_url):
    async with serving(tmp_path, extra=BOTH + MODELS, store_url=store_url) as served:
        yield served


def switch(api, **extensions):
    api.context.config = replace(api.context.config, extensions=extensions)


async def refused(api, *requests, status=400):
    answer = await api.call("POST", "/v1/batches", json={"requests": requests})
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


@pytest.mark.parametrize("item", [EMBEDDING, RESPONSE], ids=["embeddings", "responses"])
async def test_while_both_are_off_only_chat_is_served(api, item):
    switch(api)
    error = await refused(api, item)
    assert (
        error["message"]
        == f"requests[0] (custom_id '{item['custom_id']}'): url: /v1/chat/completions is the only endpoint batches serve"
    )
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "requests[0].url", "invalid_url")
    assert (await api.create([chat()]))["endpoint"] == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("on", "item", "other"),
    [("responses", EMBEDDING, RESPONSE), ("embeddings", RESPONSE, EMBEDDING)],
    ids=["embeddings off", "responses off"],
)
async def test_each_has_its_own_switch(api, on, item, other):
    switch(api, **{on: True})
    error = await refused(api, item)
    assert error["message"].endswith(f"url: batches serve /v1/chat/completions and /v1/{on} only")
    assert (await api.create([other]))["endpoint"] == f"/v1/{on}"


@pytest.mark.parametrize("item", [EMBEDDING, RESPONSE], ids=["embeddings", "responses"])
async def test_what_was_created_goes_on_while_it_is_off(api, item):
    first, second, third = [await api.create([item]) for _ in range(3)]
    switch(api)
    for claimed in await api.claim(first["id"]):
        await api.end(success(claimed, ANSWER))
    assert (await api.get(first["id"]))["status"] == "completed"
    page = await api.call("GET", f"/v1/batches/{first['id']}/results")
    assert b'"body":' + ANSWER in page.content
    export = await api.call("GET", f"/v1/batches/{first['id']}/output.jsonl")
    assert b'"body":' + ANSWER.replace(b"\n", b" ") in export.content
    assert (await api.call("POST", f"/v1/batches/{second['id']}/cancel")).json()["status"] == "cancelled"
    assert (await api.call("DELETE", f"/v1/batches/{third['id']}")).status_code == 200
    listed = (await api.call("GET", "/v1/batches")).json()["data"]
    assert [batch["id"] for batch in listed] == [second["id"], first["id"]]


async def test_a_replay_returns_its_batch_while_it_is_off(api):
    headers = {"idempotency-key": "k"}
    sent = {"json": {"requests": [EMBEDDING]}, "headers": headers}
    first = (await api.call("POST", "/v1/batches", **sent)).json()
    switch(api)
    assert (await api.call("POST", "/v1/batches", **sent)).json() == first


@pytest.mark.parametrize("item", [EMBEDDING, RESPONSE], ids=["embeddings", "responses"])
async def test_interactive_calls_go_on_while_it_is_off(api, item):
    switch(api)
    answer = await api.call("POST", item["url"], json=item["body"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
    wrong = await api.call("POST", item["url"], json=item["body"] | {"input": []})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "input")


async def test_a_batch_targets_one_endpoint(api):
    error = await refused(api, EMBEDDING, RESPONSE)
    assert error["message"] == (
        "requests[1] (custom_id 'r'): url: all requests of a batch use the same url, and the first uses /v1/embeddings"
    )
    error = await refused(api, RESPONSE, chat("c"))
    assert (error["param"], error["code"]) == ("requests[1].url", "invalid_url")


@pytest.mark.parametrize(
    ("item", "model"),
    [(EMBEDDING, "talk"), (EMBEDDING, "mute"), (RESPONSE, "embed"), (RESPONSE, "glm-5.3-flash")],
)
async def test_a_model_that_does_not_serve_the_endpoint_does_not_exist_there(api, item, model):
    body = item["body"] | {"model": model}
    error = await refused(api, item | {"body": body})
    assert error["message"] == f"requests[0] (custom_id '{item['custom_id']}'): Model '{model}' not found"
    answer = await api.call("POST", item["url"], json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


async def test_there_is_nothing_below_the_interactive_routes(api):
    for method, path, status in [
        ("GET", "/v1/responses", 405),
        ("GET", "/v1/responses/resp_1", 404),
        ("DELETE", "/v1/responses/resp_1", 404),
        ("POST", "/v1/responses/resp_1/cancel", 404),
        ("GET", "/v1/embeddings", 405),
    ]:
        assert (await api.call(method, path)).status_code == status
    assert (await api.http.post("/v1/responses", json=RESPONSE["body"])).status_code == 401
