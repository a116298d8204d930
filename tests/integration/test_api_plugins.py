"""What plugins add to the API: endpoints behind switches, further forms of a create call, routes that use the core's parts."""

from dataclasses import replace
from typing import ClassVar

import pytest
from api import chat, chat_body, serving
from quart import Blueprint, Response, request

from fibatchd import plugin_api
from fibatchd.hookspecs import hookimpl
from fibatchd.ids import new_id
from fibatchd.inference.endpoint import Call, Endpoint, Problem, Reply

NAME = "ranking"
PATH = "/v1/rank"
MODEL = (
    f'[[models]]\nid = "ranker"\nendpoints = ["{PATH}", "/v1/chat/completions"]\nupstreams = [{{ url = "echo:" }}]\n'
)
ON = f"[extensions]\n{NAME} = true\n"


class Rank(Endpoint):
    path = PATH

    def check(self, body, *, batch, options):
        return None if b'"query"' in body else Problem("query: missing", "query")

    def call(self, body, route, options, *, stream=False):
        return Call(self.path, body)

    def reply(self, body, call, route):
        return Reply(body, None)


class Aside(Rank):
    """One with a batch API of its own."""

    path = "/v1/aside"
    batchable = False


class Sheet:
    """Requests from a sheet, of which there is one, with one row."""

    member = "sheet_id"
    allowed: ClassVar = frozenset({"sheet_id", "metadata", "range"})

    def __init__(self, context):
        self.context = context

    async def create(self, call):
        if plugin_api.rawjson.decode(call.members["sheet_id"]) != "one":
            raise plugin_api.ApiError(400, "no such sheet", param="sheet_id")
        owner = call.caller
        new = plugin_api.admission.NewBatch(
            new_id("batch_"), "batches", "sheet", owner.account.id, owner.key.id, PATH, 86400, call.metadata
        )
        row = plugin_api.NewRequest("row-1", "ranker", b'{"model": "ranker", "query": "x"}')
        return plugin_api.idempotency.created(await plugin_api.store_batch(self.context, new, [row], call.key))


class Ranking:
    @staticmethod
    @hookimpl
    def fibatchd_endpoints():
        return [Rank(), Aside()]

    @staticmethod
    @hookimpl
    def fibatchd_batch_inputs(context):
        return [Sheet(context)]

    @staticmethod
    @hookimpl
    def fibatchd_routes():
        routes = Blueprint("ranking", __name__)

        @routes.get("/v1/where")
        async def where():
            return {"url": plugin_api.base_url()}

        @routes.post("/v1/small")
        async def small():
            plugin_api.require_access(plugin_api.caller())
            return {"size": len(await plugin_api.read_body(request, 10))}

        @routes.get("/v1/fixed")
        async def fixed():
            content = plugin_api.FixedBytes("0" * 64, 0, "text/plain", "nothing.txt")
            return plugin_api.fixed_answer(content, None, request.method, request.headers)

        @routes.get("/v1/rank/batches")
        async def behind_the_switch():
            await plugin_api.require_batches()
            return Response(b"{}")

        return [routes]


def served(tmp_path, extra=ON):
    # A table of the core's configuration stands before the models in it.
    return serving(tmp_path, extra=MODEL + extra, plugins={NAME: Ranking})


def rank(custom_id="a", **changes):
    return {"custom_id": custom_id, "url": PATH, "body": {"model": "ranker", "query": "x"}} | changes


async def create(api, **body):
    return await api.call("POST", "/v1/batches", json=body)


class TestEndpoints:
    async def test_on(self, tmp_path):
        async with served(tmp_path) as api:
            answer = await create(api, requests=[rank()], endpoint=PATH)
            assert (answer.status_code, answer.json()["endpoint"]) == (200, PATH)
            (claimed,) = await api.claim(answer.json()["id"])
            assert (claimed.endpoint, claimed.model) == (PATH, "ranker")

    async def test_off(self, tmp_path):
        async with served(tmp_path, "") as api:
            answer = await create(api, requests=[rank()])
            assert answer.status_code == 400
            assert "/v1/chat/completions is the only endpoint batches serve" in answer.json()["error"]["message"]

    async def test_switched_by_a_reload(self, tmp_path):
        async with served(tmp_path) as api:
            batch = (await create(api, requests=[rank()])).json()
            api.context.config = replace(api.context.config, extensions={NAME: False})
            assert (await create(api, requests=[rank()])).status_code == 400
            assert (await api.get(batch["id"])) == batch
            assert len(await api.claim(batch["id"])) == 1

    async def test_an_unknown_one_while_some_are_on(self, tmp_path):
        async with served(tmp_path) as api:
            answer = await create(api, requests=[rank(url="/v1/audio")])
            assert f"batches serve /v1/chat/completions and {PATH} only" in answer.json()["error"]["message"]

    async def test_one_that_has_a_batch_api_of_its_own(self, tmp_path):
        async with served(tmp_path) as api:
            assert (await create(api, requests=[rank(url="/v1/aside")])).status_code == 400

    @pytest.mark.parametrize(
        ("requests", "param"),
        [
            ([rank(), chat("b", model="ranker")], "requests[1].url"),
            ([rank(), {"custom_id": "b", "body": chat_body()}], "requests[1].url"),
            ([rank(body={"model": "ranker"})], "requests[0].body.query"),
            ([rank(body={"model": "glm-5.3-flash", "query": "x"})], "requests[0].body.model"),
        ],
    )
    async def test_what_its_requests_have_to_agree_with(self, tmp_path, requests, param):
        async with served(tmp_path) as api:
            answer = await create(api, requests=requests)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


class TestForms:
    async def test_another_form(self, tmp_path):
        async with served(tmp_path) as api:
            answer = await create(api, sheet_id="one", metadata={"a": "b"}, range=None, requests=None)
            assert answer.status_code == 200, answer.text
            assert answer.json()["request_counts"]["total"] == 1
            assert answer.json()["metadata"] == {"a": "b"}

    async def test_idempotency_holds_for_every_form(self, tmp_path):
        async with served(tmp_path) as api:
            call = {"json": {"sheet_id": "one"}, "headers": {"idempotency-key": "k"}}
            first = await api.call("POST", "/v1/batches", **call)
            assert first.status_code == 200, first.text
            api.context.config = replace(api.context.config, extensions={NAME: False})
            assert (await api.call("POST", "/v1/batches", **call)).json() == first.json()

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ({"sheet_id": "one", "requests": [chat()]}, "sheet_id"),
            ({"sheet_id": "one", "endpoint": PATH}, "endpoint"),
            ({"sheet_id": "two"}, "sheet_id"),
            ({"requests": [chat()], "range": "A1"}, "range"),
            ({}, "requests"),
        ],
    )
    async def test_refused(self, tmp_path, body, param):
        async with served(tmp_path) as api:
            answer = await create(api, **body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


class TestParts:
    async def test_the_address_that_the_client_used(self, tmp_path):
        async with served(tmp_path) as api:
            used = await api.call("GET", "/v1/where", headers={"host": "batch.example:8443"})
            assert used.json() == {"url": "http://batch.example:8443"}
            server = replace(api.context.config.server, public_url="https://public.example/llm")
            api.context.config = replace(api.context.config, server=server)
            assert (await api.call("GET", "/v1/where")).json() == {"url": "https://public.example/llm"}

    async def test_a_body_within_a_limit(self, tmp_path):
        async with served(tmp_path) as api:
            assert (await api.call("POST", "/v1/small", content=b"x" * 10)).json() == {"size": 10}
            assert (await api.call("POST", "/v1/small", content=b"x" * 11)).status_code == 413
            bob = await api.owner(tier="free")
            assert (await api.call("POST", "/v1/small", by=bob)).status_code == 403

    async def test_fixed_bytes_that_are_none(self, tmp_path):
        async with served(tmp_path) as api:
            whole = await api.call("GET", "/v1/fixed")
            assert (whole.status_code, whole.content, whole.headers["content-length"]) == (200, b"", "0")
            for wanted in ("bytes=0-", "bytes=0-0", "bytes=-1", "bytes=5-"):
                part = await api.call("GET", "/v1/fixed", headers={"range": wanted})
                assert (part.status_code, part.headers["content-range"]) == (416, "bytes */0")
                assert part.json()["error"]["code"] == "range_not_satisfiable"
                assert "content-disposition" not in part.headers

    async def test_batch_routes_of_plugins(self, tmp_path):
        async with served(tmp_path) as api:
            assert (await api.call("GET", "/v1/rank/batches")).status_code == 200
            api.configure(enabled=False)
            assert (await api.call("GET", "/v1/rank/batches")).status_code == 404
