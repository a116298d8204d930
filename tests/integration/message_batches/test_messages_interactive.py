"""`POST /v1/messages`: the same checks, models, routing and price as in a batch, whole and streamed."""

import json

import pytest
import trio
from api import serving
from message_models import model_server
from messages_api import error_of, params

from fibatchd.money import PICO
from fibatchd.store.interface import Query

EXTRA = """
[[models]]
id = "translated"
endpoints = ["/v1/messages"]
price_usd_per_million = {{ input = "1", cached_input = "0.5", output = "2" }}
upstreams = [{{ url = "{url}/v1", endpoints = ["/v1/chat/completions"], model = "theirs" }}]
[[models]]
id = "native"
endpoints = ["/v1/messages"]
price_usd_per_million = {{ input = "1", cached_input = "0.5", output = "2" }}
upstreams = [{{ url = "{url}", protocol = "anthropic", model = "theirs", headers = {{ x-team = "t" }} }}]
[[models]]
id = "either"
endpoints = ["/v1/messages"]
[[models.upstreams]]
url = "{url}/v1"
endpoints = ["/v1/chat/completions"]
weight = 100
[[models.upstreams]]
url = "{url}"
protocol = "anthropic"
[[models]]
id = "one-down"
endpoints = ["/v1/messages"]
[[models.upstreams]]
url = "{url}/v1"
endpoints = ["/v1/chat/completions"]
[[models.upstreams]]
url = "http://127.0.0.1:1"
protocol = "anthropic"
"""
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
COST = (20 * PICO + 10 * PICO // 2 + 12 * 2 * PICO) // 10**6


@pytest.fixture
def upstream():
    with model_server() as server:
        yield server


@pytest.fixture
async def api(tmp_path, upstream):
    async with serving(tmp_path, extra=EXTRA.format(url=upstream.url)) as served:
        yield served


async def ask(api, text="Hello there", *, headers=None, version="2023-06-01", path="/v1/messages", **changes):
    sent = ({"anthropic-version": version} if version else {}) | (headers or {})
    body = params(messages=[{"role": "user", "content": text}]) | changes
    return await api.call("POST", path, json=body, headers=sent)


def books(account_id):
    return (
        yield Query(
            "SELECT SUM(attempts), SUM(input_tokens), SUM(cached_tokens), SUM(output_tokens), SUM(cost), SUM(cost_unknown) "
            "FROM spending WHERE account_id = ? AND way = 'interactive'",
            (account_id,),
        )
    )


async def spent(api):
    with trio.fail_after(10):
        while True:
            ((attempts, *row),) = await api.context.store.read(books, api.ada.account.id)
            if attempts:
                return row
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("path", ["/v1/messages", "/anthropic/v1/messages"])
@pytest.mark.parametrize("model", ["translated", "native"])
async def test_an_answer(api, model, path):
    answer = await ask(api, model=model, path=path)
    assert answer.status_code == 200, answer.text
    message = answer.json()
    assert (message["model"], message["content"]) == (model, [{"type": "text", "text": "Hello there"}])
    assert await spent(api) == [30, 10, 12, COST, 0]


@pytest.mark.parametrize("model", ["translated", "native"])
async def test_a_stream(api, model):
    answer = await ask(api, model=model, stream=True)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n") if line.startswith("data: ")]
    assert [event["type"] for event in events][:3] == ["message_start", "ping", "content_block_start"]
    assert events[0]["message"]["model"] == model
    assert "".join(event.get("delta", {}).get("text", "") for event in events) == "Hello there"
    assert events[-1] == {"type": "message_stop"}
    assert await spent(api) == [30, 10, 12, COST, 0]


@pytest.mark.parametrize("version", [None, "", "2024-01-01"])
async def test_the_version_is_required(api, version):
    answer = await ask(
        api, model="native", version=None, headers={"anthropic-version": version} if version is not None else {}
    )
    assert error_of(answer, 400)["message"].startswith("anthropic-version: ")


async def test_versions_and_betas_go_to_a_native_upstream_only(api, upstream):
    headers = {"anthropic-beta": "a-2024, b-2025"}
    await ask(api, model="native", version="2026-10-21", headers=headers)
    await ask(api, model="translated", headers=headers)
    native, chat = upstream.calls
    assert native.path == "/v1/messages"
    assert native.headers["anthropic-version"] == "2026-10-21"
    assert native.headers["anthropic-beta"] == "a-2024, b-2025"
    assert native.headers["x-team"] == "t"
    assert chat.path == "/v1/chat/completions"
    assert not [name for name in chat.headers if name.startswith("anthropic-")]


async def test_a_native_body_goes_as_it_stands(api, upstream):
    text = (
        b'{ "max_tokens":1.0, "model" : "native", "new":[1e2,null], "messages":[{"role":"user","content":"\\ud800"}] }'
    )
    answer = await api.call("POST", "/v1/messages", content=text, headers={"anthropic-version": "2023-06-01"})
    assert answer.status_code == 200
    assert upstream.calls[0].body == text.replace(b'"native"', b'"theirs"')


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("changes", "status", "kind", "message"),
    [
        ({"model": "nope"}, 404, "not_found_error", "Model 'nope' not found"),
        ({"model": "glm-5.3-flash"}, 404, "not_found_error", "Model 'glm-5.3-flash' not found"),
        ({"model": "translated"} | THINKING, 400, "invalid_request_error", "thinking: "),
        ({"model": "native", "container": "c"}, 400, "invalid_request_error", "container: "),
        ({"model": "native", "max_tokens": None}, 400, "invalid_request_error", "max_tokens: "),
        ({"model": "translated", "text": "error 400"}, 400, "invalid_request_error", "no: error 400"),
        ({"model": "native", "text": "error 429"}, 429, "rate_limit_error", "The model's server is limiting"),
        ({"model": "native", "text": "error 529"}, 529, "overloaded_error", "The model's server failed"),
        ({"model": "translated", "text": "error 503"}, 503, "overloaded_error", "The model's server is not available"),
        ({"model": "translated", "text": "error 500"}, 500, "api_error", "The model's server failed"),
        ({"model": "translated", "text": "error 401"}, 502, "api_error", "The model's server failed"),
    ],
)
async def test_refusals(api, changes, status, kind, message, stream):
    error = error_of(await ask(api, stream=stream, **changes), status)
    assert error["type"] == kind
    assert error["message"].startswith(message)


async def test_the_versions_rules_hold_here_too(api):
    answer = await ask(api, model="native", version="2026-10-21", temperature=0.5)
    assert error_of(answer, 400)["message"] == "temperature: Extra inputs are not permitted"


@pytest.mark.parametrize("stream", [False, True])
async def test_what_one_upstream_cannot_carry_goes_to_another(api, upstream, stream):
    for _ in range(3):
        assert (await ask(api, model="either", stream=stream, **THINKING)).status_code == 200
    assert {call.path for call in upstream.calls} == {"/v1/messages"}


@pytest.mark.parametrize("stream", [False, True])
async def test_where_the_only_upstream_that_could_is_down_the_request_is_not_at_fault(api, stream):
    error = error_of(await ask(api, model="one-down", stream=stream, **THINKING), 503)
    assert error["type"] == "overloaded_error"
    assert (await ask(api, model="one-down", stream=stream)).status_code == 200


async def test_the_interactive_route_stays_while_batches_are_off(api):
    assert not api.context.config.is_on("message_batches")
    assert (await ask(api, model="native")).status_code == 200
    api.configure(enabled=False)
    assert (await ask(api, model="native")).status_code == 200


async def test_headers_of_the_providers_own_service(api):
    answer = await ask(api, model="native", headers={"anthropic-workspace-id": "w"})
    assert error_of(answer, 400)["message"] == "anthropic-workspace-id: is not available here"
