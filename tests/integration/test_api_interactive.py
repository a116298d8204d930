"""`POST /v1/chat/completions` and `GET /v1/models`: the same checks, models, routing and price as in a batch."""

import json

import pytest
import structlog
import trio
from api import chat_body, serving
from model_server import COMPLETION, model_server

from fibatchd.money import PICO
from fibatchd.store import accounts, spending
from fibatchd.store.interface import Query

CHAT = "/v1/chat/completions"
CHUNK = {
    "id": "c1",
    "object": "chat.completion.chunk",
    "model": "up",
    "choices": [{"index": 0, "delta": {"content": "2"}}],
}
USAGE = {
    "id": "c1",
    "object": "chat.completion.chunk",
    "model": "up",
    "choices": [],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5},
}
COST = 10 * PICO // 10**6 + 5 * 2 * PICO // 10**6


@pytest.fixture
async def upstream():
    async with model_server() as server:
        yield server


@pytest.fixture
async def api(tmp_path, upstream):
    async with serving(tmp_path, extra=upstream.config) as served:
        yield served


async def ask(api, **changes):
    options = {name: changes.pop(name) for name in ("by", "content") if name in changes}
    body = {} if "content" in options else {"json": chat_body(model="up-model") | changes}
    return await api.call("POST", CHAT, **body, **options)


def books(account_id):
    return (
        yield Query(
            "SELECT attempts, input_tokens, output_tokens, cost, cost_unknown FROM spending WHERE account_id = ? AND way = 'interactive'",
            (account_id,),
        )
    )


async def spent(api, attempts=1):
    """The account's books, once they hold so many attempts."""
    with trio.fail_after(10):
        while True:
            rows = await api.context.store.read(books, api.ada.account.id)
            if sum(row[0] for row in rows) >= attempts:
                return rows
            await trio.lowlevel.checkpoint()


async def test_an_answer(api, upstream):
    answer = await ask(api)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.content == COMPLETION.replace(b'"up"', b'"up-model"')
    assert await spent(api) == [(1, 10, 5, COST, 0)]


async def test_the_body_goes_on_as_it_was_written(api, upstream):
    written = b'{ "messages":[{"role":"user","content":"\\ud800"}],\n "seed": 123456789012345678901234567890, "model" : "up-alias", "x":1.10}'
    assert (await ask(api, content=written)).status_code == 200
    assert upstream.calls[0].body == written.replace(b'"up-alias"', b'"up"')
    assert upstream.calls[0].path == "/v1/chat/completions"


REFUSED = {
    "not JSON": (b"{", None, "invalid_json"),
    "a list": (b"[]", None, "invalid_json"),
    "a byte order mark": (b"\xef\xbb\xbf{}", None, "invalid_json"),
    "NaN": (b'{"model": "up-model", "x": NaN}', None, "invalid_json"),
    "no model": (b'{"messages": []}', "model", "missing_required_parameter"),
    "model null": (b'{"model": null}', "model", "invalid_type"),
    "model twice": (b'{"model": "up-model", "model": "up-model"}', "model", "invalid_request"),
    "no messages": (b'{"model": "up-model"}', "messages", "invalid_request"),
    "stream a number": (json.dumps(chat_body(model="up-model", stream=1)).encode(), "stream", "invalid_request"),
    "temperature text": (
        json.dumps(chat_body(model="up-model", temperature="1")).encode(),
        "temperature",
        "invalid_request",
    ),
    "a large body that is wrong": (
        json.dumps(chat_body(model="up-model", pad="x" * 200_000, n="1")).encode(),
        "n",
        "invalid_request",
    ),
}


@pytest.mark.parametrize(("sent", "param", "code"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_body_that_is_refused(api, upstream, sent, param, code):
    answer = await ask(api, content=sent)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, param, code)
    assert upstream.calls == []


@pytest.mark.parametrize("model", ["no-such-model", "auto", "internal-only", "\ud800", "x" * 1000, "a\0b"])
async def test_a_model_that_may_not_be_used(api, model):
    bob = await api.owner(tier="free")
    answer = await ask(api, by=bob, content=json.dumps(chat_body(model=model)).encode())
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


async def test_a_drained_model(api, upstream):
    api.context.drained = frozenset({"up-model"})
    assert (await ask(api)).status_code == 503
    assert upstream.calls == []


async def test_the_quota(api, upstream):
    await api.context.store.write(accounts.set_account_quota, api.ada.account.id, COST)
    assert (await ask(api)).status_code == 200
    answer = await ask(api)  # at once: what is not in the books yet counts, too
    assert (answer.status_code, answer.headers["x-should-retry"]) == (429, "false")
    assert int(answer.headers["retry-after"]) > 1000
    assert len(upstream.calls) == 1


async def test_concurrency(tmp_path, upstream):
    release = trio.Event()
    entered = trio.Event()

    async def slow(call):
        entered.set()
        await release.wait()
        await call.reply()

    upstream.handler = slow
    tier = "[tiers.internal]\ninteractive_concurrency = 1\n"
    async with serving(tmp_path, extra=tier + upstream.config) as api, trio.open_nursery() as nursery:
        answers = []

        async def first():
            answers.append(await ask(api))

        nursery.start_soon(first)
        await entered.wait()
        assert api.context.load.interactive("up-model") == 1
        second = await ask(api)
        assert (second.status_code, second.headers["retry-after"]) == (429, "1")
        assert "x-should-retry" not in second.headers
        bob = await api.owner()
        nursery.start_soon(ask_as, api, bob)
        while api.context.load.interactive("up-model") < 2:
            await trio.lowlevel.checkpoint()
        release.set()
        while not answers:
            await trio.lowlevel.checkpoint()
        assert answers[0].status_code == 200
        assert (await ask(api)).status_code == 200


async def ask_as(api, who):
    assert (await ask(api, by=who)).status_code == 200


FAILURES = {
    400: (400, "invalid_request", 0),
    401: (502, "upstream_error", 0),
    403: (403, "forbidden", 0),
    404: (404, "model_not_found", 0),
    408: (504, "timeout", 1),
    422: (422, "invalid_request", 0),
    429: (429, "rate_limited", 0),
    500: (500, "upstream_error", 0),
    503: (503, "service_unavailable", 0),
    504: (504, "timeout", 1),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", FAILURES)
async def test_what_the_upstream_refuses(api, upstream, status, stream):
    async def refuse(call):
        await call.reply(status, b'{"error":{"message":"up says no at http://10.0.0.1/"}}')

    upstream.handler = refuse
    told, code, unknown = FAILURES[status]
    answer = await ask(api, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (told, code)
    assert "10.0.0.1" not in answer.text
    assert await spent(api) == [(1, 0, 0, 0, unknown)]


async def test_a_wait_that_the_upstream_asks_for(api, upstream):
    async def busy(call):
        await call.reply(429, b"{}", "retry-after: 7")

    upstream.handler = busy
    assert (await ask(api)).headers["retry-after"] == "7"
    # The upstream is left alone meanwhile, and nothing is spent on finding that out.
    again = await ask(api)
    assert (again.status_code, again.headers["retry-after"]) == (429, "7")
    assert len(upstream.calls) == 1


async def test_no_upstream_is_there(tmp_path):
    gone = '[[models]]\nid = "up-model"\nupstreams = [{ url = "http://127.0.0.1:1/v1" }]\n'
    async with serving(tmp_path, extra=gone) as api:
        for stream in (False, True):
            answer = await ask(api, stream=stream)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
            assert answer.headers["retry-after"] == "1"


class TestStreams:
    async def test_each_event_goes_on_as_it_comes(self, api, upstream):
        go_on = trio.Event()

        async def stream(call):
            await call.open()
            await call.event(CHUNK)
            await go_on.wait()
            await call.event(USAGE)
            await call.event(b"data: [DONE]\n\n")

        upstream.handler = stream
        async with api.http.stream(
            "POST", CHAT, json=chat_body(model="up-model", stream=True), headers=api.ada.headers
        ) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            received = answer.aiter_raw()
            first = await anext(received)
            assert json.loads(first.removeprefix(b"data: ")) == CHUNK | {"model": "up-model"}
            assert api.context.load.interactive("up-model") == 1
            go_on.set()
            assert b"".join([chunk async for chunk in received]) == b"data: [DONE]\n\n"
        assert json.loads(upstream.calls[0].body)["stream_options"] == {"include_usage": True}
        assert await spent(api) == [(1, 10, 5, COST, 0)]
        assert api.context.load.interactive("up-model") == 0

    async def test_the_usage_chunk_for_who_asked_for_it(self, api, upstream):
        async def stream(call):
            await call.open()
            await call.event(USAGE)
            await call.event(b"data: [DONE]\n\n")

        upstream.handler = stream
        answer = await ask(api, stream=True, stream_options={"include_usage": True})
        assert b'"usage"' in answer.content

    async def test_a_client_that_leaves_ends_the_upstreams_work(self, api, upstream):
        gone = trio.Event()

        async def endless(call):
            await call.open()
            await call.event(CHUNK)
            await call.gone()
            gone.set()

        upstream.handler = endless
        lines = structlog.testing.LogCapture()
        structlog.configure(processors=[lines])
        body = json.dumps(chat_body(model="up-model", stream=True))
        client = await trio.open_tcp_stream("127.0.0.1", api.port)
        async with client:
            head = (
                f"POST {CHAT} HTTP/1.1\r\nhost: a\r\nx-api-key: {api.ada.secret}\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            await client.send_all((head + body).encode())
            received = b""
            while b"data: " not in received:
                received += await client.receive_some()
        with trio.fail_after(10):
            await gone.wait()
            while not lines.entries:
                await trio.lowlevel.checkpoint()
        assert (lines.entries[0]["status"], lines.entries[0]["complete"]) == (200, False)
        assert await spent(api) == [(1, 0, 0, 0, 1)]
        assert api.context.load.interactive("up-model") == 0

    async def test_a_stream_that_breaks_says_so(self, api, upstream):
        async def broken(call):
            await call.open()
            await call.event(CHUNK)

        upstream.handler = broken
        answer = await ask(api, stream=True)
        last = json.loads(answer.text.strip().split("\n\n")[-1].removeprefix("data: "))
        assert last["error"]["code"] == "upstream_error"
        assert await spent(api) == [(1, 0, 0, 0, 1)]


async def test_a_client_that_leaves_before_the_answer(api, upstream):
    called, gone = trio.Event(), trio.Event()

    async def hang(call):
        called.set()
        await call.gone()
        gone.set()

    upstream.handler = hang
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, api)
        await called.wait()
        nursery.cancel_scope.cancel()
    with trio.fail_after(10):
        await gone.wait()
    assert await spent(api) == [(1, 0, 0, 0, 1)]


async def test_spending_waits_for_a_store_that_is_away(api, upstream):
    writes = api.store.write
    tried = trio.Event()

    async def away(script, *args, **kwargs):
        if script is spending.record_interactive:
            tried.set()
            api.store.down = True
            try:
                return await writes(script, *args, **kwargs)
            finally:
                api.store.down = False
        return await writes(script, *args, **kwargs)

    api.store.write = away
    assert (await ask(api)).status_code == 200
    await tried.wait()
    assert api.context.bookkeeper.pending(api.ada.account.id) == COST
    api.store.write = writes
    assert await spent(api) == [(1, 10, 5, COST, 0)]


class TestModels:
    async def test_the_list(self, api):
        listed = (await api.call("GET", "/v1/models")).json()
        assert listed["object"] == "list"
        assert [model["id"] for model in listed["data"]] == [
            "glm-5.3-flash",
            "qwen3.6-35b",
            "internal-only",
            "up-model",
        ]
        assert set(listed["data"][0]) == {"id", "object", "created", "owned_by"}

    async def test_it_is_what_the_key_may_use(self, api):
        pro = await api.owner(tier="pro")
        limited = await api.key_of(pro.account, models=["up-model", "internal-only"])
        ids = [model["id"] for model in (await api.call("GET", "/v1/models", by=pro)).json()["data"]]
        assert "internal-only" not in ids
        assert [m["id"] for m in (await api.call("GET", "/v1/models", by=limited)).json()["data"]] == ["up-model"]
        assert (await api.call("GET", "/v1/models/internal-only", by=limited)).status_code == 404

    async def test_one(self, api):
        for name in ("glm-5.3-flash", "glm-flash"):
            assert (await api.call("GET", f"/v1/models/{name}")).json()["id"] == "glm-5.3-flash"
        answer = await api.call("GET", "/v1/models/org/none")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
