"""`POST /v1/batches` with `requests`: every field, every refusal, and what comes back."""

import json

import pytest
from api import chat, chat_body, serving

from fibatchd import jsonbounds
from fibatchd.store import jobs, leases, sweeps
from fibatchd.store.interface import Query

LONG = "x" * 512


async def create(api, body, **options):
    return await api.call("POST", "/v1/batches", json=body, **options)


async def test_the_new_batch(api):
    body = {"requests": [chat("q-1"), chat("q-2", model="qwen3.6-35b")], "metadata": {"project": "eval-42"}}
    answer = await create(api, body)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    batch = answer.json()
    assert batch.pop("id").startswith("batch_")
    assert batch == {
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "errors": None,
        "input_file_id": None,
        "completion_window": "24h",
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": 1795000000,
        "in_progress_at": None,
        "expires_at": 1795086400,
        "finalizing_at": None,
        "completed_at": None,
        "failed_at": None,
        "expired_at": None,
        "cancelling_at": None,
        "cancelled_at": None,
        "request_counts": {"total": 2, "completed": 0, "failed": 0},
        "metadata": {"project": "eval-42"},
        "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
        "cost_usd": 0.0,
        "cost_unknown_attempts": 0,
        "results_expires_at": None,
        "error": None,
    }
    assert (await api.get(answer.json()["id"])) == answer.json()


async def test_the_fields_come_in_the_documented_order(api):
    fields = list(await api.create())
    assert fields[:4] == ["id", "object", "endpoint", "errors"]
    assert fields[-5:] == ["usage", "cost_usd", "cost_unknown_attempts", "results_expires_at", "error"]


ACCEPTED = {
    "method left out": {"requests": [{"custom_id": "a", "body": chat_body()}]},
    "method and url null": {"requests": [chat() | {"method": None, "url": None}]},
    "url left out and given": {"requests": [{"custom_id": "a", "body": chat_body()}, chat("b")]},
    "endpoint that equals the url": {"requests": [chat()], "endpoint": "/v1/chat/completions"},
    "endpoint null": {"requests": [chat()], "endpoint": None},
    "a completion window, ignored": {"requests": [chat()], "completion_window": "1h"},
    "a completion window of another type": {"requests": [chat()], "completion_window": {"any": 1}},
    "the file form's member, null": {"requests": [chat()], "input_file_id": None},
    "longest custom_id": {"requests": [chat(LONG)]},
    "longest custom_id counts code points": {"requests": [chat("😀" * 512)]},
    "stream false": {"requests": [chat(stream=False)]},
    "unknown body keys": {"requests": [chat(top_k=5, guided_json={"a": None})]},
    "an alias": {"requests": [chat(model="glm-flash")]},
    "parts": {"requests": [chat(messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])]},
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED.keys())
async def test_accepted(api, body):
    answer = await create(api, body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["completion_window"] == "24h"


def item(**changes):
    return {"requests": [chat("q-0"), chat("q-1") | changes]}


def body(**changes):
    return {"requests": [chat("q-0"), chat("q-1", **changes)]}


def without(member):
    broken = chat("q-1")
    del broken[member]
    return {"requests": [chat("q-0"), broken]}


NAMED = "requests[1] (custom_id 'q-1'): "
CHAT_ONLY = "/v1/chat/completions is the only endpoint batches serve"

REFUSED = {
    # What is sent, then the parameter, the code and a part of the message that it is refused with.
    "no requests": ({}, "requests", "missing_required_parameter", "requests"),
    "requests null": ({"requests": None}, "requests", "missing_required_parameter", "requests"),
    "requests empty": ({"requests": []}, "requests", "invalid_value", "must not be empty"),
    "requests an object": ({"requests": {}}, "requests", "invalid_type", "expected an array"),
    "requests text": ({"requests": "[]"}, "requests", "invalid_type", "expected an array"),
    "unknown field": ({"requests": [chat()], "priority": 1}, "priority", "unknown_parameter", "priority"),
    "unknown field, null": ({"requests": [chat()], "priority": None}, "priority", "unknown_parameter", "priority"),
    "a long name": ({"x" * 10**5: 1}, "x" * 100 + "…", "unknown_parameter", "x…: unknown field"),
    "a long name in an item": (item(**{"x" * 10**5: 1}), "requests[1]." + "x" * 100 + "…", "unknown_parameter", "x…: "),
    "output_expires_after": (
        {"requests": [chat()], "output_expires_after": {}},
        "output_expires_after",
        "unknown_parameter",
        "output_expires_after",
    ),
    "another endpoint": (
        {"requests": [chat()], "endpoint": "/v1/embeddings"},
        "endpoint",
        "invalid_value",
        "must equal",
    ),
    "endpoint a number": ({"requests": [chat()], "endpoint": 1}, "endpoint", "invalid_value", "must equal"),
    "an item that is no object": (
        {"requests": [chat(), 7]},
        "requests[1]",
        "invalid_type",
        "requests[1]: expected an object",
    ),
    "custom_id missing": (
        without("custom_id"),
        "requests[1].custom_id",
        "missing_required_parameter",
        "requests[1]: custom_id",
    ),
    "custom_id null": (item(custom_id=None), "requests[1].custom_id", "missing_required_parameter", "custom_id"),
    "custom_id a number": (item(custom_id=7), "requests[1].custom_id", "invalid_type", "expected a string"),
    "custom_id empty": (item(custom_id=""), "requests[1].custom_id", "invalid_value", "1 to 512"),
    "custom_id too long": (item(custom_id=LONG + "x"), "requests[1].custom_id", "invalid_value", "1 to 512"),
    "custom_id with NUL": (item(custom_id="a\0"), "requests[1].custom_id", "invalid_value", "NUL"),
    "custom_id with a surrogate": (item(custom_id="\ud800"), "requests[1].custom_id", "invalid_value", "surrogate"),
    "custom_id twice": (
        item(custom_id="q-0"),
        "requests[1].custom_id",
        "duplicate_custom_id",
        "requests[1] (custom_id 'q-0')",
    ),
    "another method": (item(method="GET"), "requests[1].method", "invalid_value", NAMED + "method"),
    "method in lower case": (item(method="post"), "requests[1].method", "invalid_value", "POST"),
    "method a number": (item(method=1), "requests[1].method", "invalid_type", "expected a string"),
    "url a number": (item(url=1), "requests[1].url", "invalid_type", "expected a string"),
    "an unknown url": ({"requests": [chat() | {"url": "/v1/audio"}]}, "requests[0].url", "invalid_url", CHAT_ONLY),
    "url of an extension that is off": (
        {"requests": [chat() | {"url": "/v1/embeddings"}]},
        "requests[0].url",
        "invalid_url",
        CHAT_ONLY,
    ),
    "url of another extension that is off": (
        {"requests": [chat() | {"url": "/v1/responses"}]},
        "requests[0].url",
        "invalid_url",
        CHAT_ONLY,
    ),
    "two urls": (
        item(url="/v1/embeddings"),
        "requests[1].url",
        "invalid_url",
        NAMED + "url: all requests of a batch use the same url",
    ),
    "unknown item field": (item(priority=1), "requests[1].priority", "unknown_parameter", NAMED + "priority"),
    "unknown item field, null": (item(priority=None), "requests[1].priority", "unknown_parameter", "priority"),
    "body missing": (without("body"), "requests[1].body", "missing_required_parameter", NAMED + "body"),
    "body null": (item(body=None), "requests[1].body", "missing_required_parameter", "body"),
    "body a list": (item(body=[]), "requests[1].body", "invalid_type", "expected an object"),
    "model missing": (item(body={"messages": []}), "requests[1].body.model", "missing_required_parameter", "model"),
    "model a number": (body(model=1), "requests[1].body.model", "invalid_type", "model"),
    "model unknown": (
        body(model="no-such-model"),
        "requests[1].body.model",
        "model_not_found",
        NAMED + "Model 'no-such-model' not found",
    ),
    "model auto": (body(model="auto"), "requests[1].body.model", "model_not_found", "Auto models"),
    "model auto-cheap": (body(model="auto-cheap"), "requests[1].body.model", "model_not_found", "Auto models"),
    "messages missing": (
        item(body={"model": "glm-flash"}),
        "requests[1].body.messages",
        "invalid_request",
        NAMED + "messages: missing",
    ),
    "messages empty": (body(messages=[]), "requests[1].body.messages", "invalid_request", "messages"),
    "a field out of range": (body(temperature=3), "requests[1].body.temperature", "invalid_request", "temperature"),
    "stream true": (body(stream=True), "requests[1].body.stream", "streaming_unsupported", "stream"),
    "stream a number": (body(stream=1), "requests[1].body.stream", "invalid_request", "stream"),
    "metadata a string": ({"requests": [chat()], "metadata": "a"}, "metadata", "invalid_type", "expected an object"),
    "metadata a list": ({"requests": [chat()], "metadata": []}, "metadata", "invalid_type", "expected an object"),
    "metadata value a number": (
        {"requests": [chat()], "metadata": {"run": 7}},
        "metadata.run",
        "invalid_type",
        "expected a string",
    ),
    "metadata value null": (
        {"requests": [chat()], "metadata": {"run": None}},
        "metadata.run",
        "invalid_type",
        "expected a string",
    ),
    "metadata key empty": ({"requests": [chat()], "metadata": {"": "a"}}, "metadata", "invalid_value", "1 to 64"),
    "metadata key too long": (
        {"requests": [chat()], "metadata": {"k" * 65: "a"}},
        "metadata",
        "invalid_value",
        "1 to 64",
    ),
    "metadata value too long": (
        {"requests": [chat()], "metadata": {"k": LONG + "x"}},
        "metadata.k",
        "invalid_value",
        "512",
    ),
    "metadata with NUL": ({"requests": [chat()], "metadata": {"k": "\0"}}, "metadata.k", "invalid_value", "NUL"),
    "metadata with a surrogate key": (
        {"requests": [chat()], "metadata": {"\ud800": "a"}},
        "metadata",
        "invalid_value",
        "surrogate",
    ),
    "17 pairs": (
        {"requests": [chat()], "metadata": {f"k{n}": "" for n in range(17)}},
        "metadata",
        "invalid_value",
        "at most 16",
    ),
}


@pytest.mark.parametrize(("sent", "param", "code", "message"), REFUSED.values(), ids=REFUSED.keys())
async def test_refused(api, sent, param, code, message):
    # Not by httpx2's `json`, which cannot write lone surrogates.
    answer = await api.call("POST", "/v1/batches", content=json.dumps(sent).encode())
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["param"], error["code"], error["type"]) == (param, code, "invalid_request_error")
    assert message in error["message"]
    assert (await api.call("GET", "/v1/batches")).json()["data"] == []


RAW = {
    "not JSON": b'{"requests": [',
    "nothing": b"",
    "a list": b"[]",
    "a byte order mark": b'\xef\xbb\xbf{"requests": []}',
    "Latin-1": b'{"requests": [{"custom_id": "\xe9", "body": {}}]}',
    "UTF-16": '{"requests": []}'.encode("utf-16"),
    "NaN": b'{"requests": [{"custom_id": "a", "body": {"model": "glm-flash", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}}]}',
    "Infinity": b'{"requests": [{"custom_id": "a", "body": {"model": "glm-flash", "messages": [{"role": "user", "content": "x"}], "x": -Infinity}}]}',
    "a body's key twice": b'{"requests": [{"custom_id": "a", "body": {"model": "glm-flash", "mode\\u006c": "qwen", "messages": [{"role": "user", "content": "x"}]}}]}',
    "an item's key twice": b'{"requests": [{"custom_id": "a", "custom_id": "b", "body": {"model": "glm-flash", "messages": [{"role": "user", "content": "x"}]}}]}',
    "requests twice": b'{"requests": [{"custom_id": "a", "body": {"model": "glm-flash", "messages": [{"role": "user", "content": "x"}]}}], "requests" : null}',
    "metadata twice": b'{"metadata": {}, "requests": [], "met\\u0061data": {}}',
    "a key of metadata twice": b'{"metadata": {"a": "1", "a": "2"}, "requests": [{"custom_id": "a", "body": {"model": "glm-flash", "messages": [{"role": "user", "content": "x"}]}}]}',
    "Latin-1 where it is ignored": b'{"completion_window": "\xe9", "requests": [{"custom_id": "a", "body": {"model": "glm-flash", "messages": [{"role": "user", "content": "x"}]}}]}',
    "too deep": b'{"requests": [{"custom_id": "a", "body": {"model": "glm-flash", "messages": [{"role": "user", "content": "x"}], "x": '
    + b"[" * 600
    + b"]" * 600
    + b"}}]}",
    "a million brackets": b'{"metadata": ' + b"[" * 1_000_000,
}


@pytest.mark.parametrize("sent", RAW.values(), ids=RAW.keys())
async def test_refused_as_it_stands(api, sent):
    answer = await api.call("POST", "/v1/batches", content=sent)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("count", [jsonbounds.MOST_PARTS, jsonbounds.MOST_VALUES])
@pytest.mark.parametrize("where", ["%b", '"metadata": {"a": %b}', '"requests": [{"custom_id": "a", "body": %b}]'])
async def test_what_would_fill_memory_is_refused(api, where, count):
    many = b"[" + (b"[]," if count == jsonbounds.MOST_PARTS else b"0,") * count + b"0]"
    answer = await api.call(
        "POST", "/v1/batches", content=b"{" + where.encode() % (b'"x": %b' % many if where == "%b" else many) + b"}"
    )
    assert answer.status_code == 400
    assert len(answer.content) < 500


@pytest.mark.parametrize("metadata", [None, {}, {"k" * 64: "v" * 512}, {"a": "ä\u2028😀", "b": ""}])
async def test_metadata_reads_back_as_it_was_given(api, metadata):
    batch = await api.create(metadata=metadata)
    assert batch["metadata"] == metadata


async def test_an_unavailable_model(tmp_path):
    drained = '[[models]]\nid = "old"\ndrain = true\nupstreams = [{ url = "echo:" }]\n'
    async with serving(tmp_path, extra=drained) as api:
        api.context.drained = frozenset({"qwen3.6-35b"})
        for model in ("old", "qwen3.6-35b"):
            answer = await create(api, {"requests": [chat(model=model)]})
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "model_unavailable"


async def test_a_model_of_others_reads_like_one_that_does_not_exist(api):
    pro = await api.owner(tier="pro")
    limited = await api.key_of(api.ada.account, models=["qwen3.6-35b"])
    for who, model in [(pro, "internal-only"), (limited, "glm-5.3-flash"), (limited, "glm-flash")]:
        answer = await create(api, {"requests": [chat(model=model)]}, by=who)
        assert answer.json()["error"]["message"] == f"requests[0] (custom_id 'q-1'): Model '{model}' not found"
    assert (await create(api, {"requests": [chat(model="qwen3.6-35b")]}, by=limited)).status_code == 200


async def test_an_alias_is_pinned_to_its_model(api):
    batch = await api.create([chat(model="glm-flash")])
    (claimed,) = await api.claim(batch["id"])
    assert claimed.model == "glm-5.3-flash"


async def test_bodies_are_kept_as_they_were_written(api):
    written = (
        b'{ "messages":[{"role":"user","content":"\\ud800 \\u00e9 \xc3\xa9 \xe2\x80\xa8"}],\n\t"seed": 123456789012345678901234567890,'
        b' "x": [1.10, 1e2, -0, null], "model" : "glm-5.3-flash" }'
    )
    sent = b'{"requests": [{"body": %b, "custom_id": "\\u0061"}]}' % written
    answer = await api.call("POST", "/v1/batches", content=sent)
    assert answer.status_code == 200, answer.text
    (claimed,) = await api.claim(answer.json()["id"])
    assert claimed.body == written


async def test_requests_are_stored_in_order_also_when_there_are_many(api):
    batch = await api.create([chat(f"q-{n}") for n in range(2500)])
    assert batch["request_counts"]["total"] == 2500
    assert "append" in api.store.writes
    page = (await api.call("GET", f"/v1/batches/{batch['id']}/results?limit=1000&after=batch_req_1499")).json()
    assert [entry["custom_id"] for entry in page["data"]] == [f"q-{n}" for n in range(1499, 2499)]
    assert page["has_more"] is True


async def test_a_model_that_comes_late_has_its_lane(api, monkeypatch):
    monkeypatch.setattr("fibatchd.web.intake.AT_ONCE", 3)
    monkeypatch.setattr("fibatchd.web.work.PIECE_ITEMS", 2)
    models = ["glm-flash", "glm-flash", "glm-5.3-flash", "qwen3.6-35b", "glm-flash"]
    batch = await api.create([chat(f"q-{number}", model=model) for number, model in enumerate(models)])
    claimed = await api.claim(batch["id"])
    first = min(one.number for one in claimed)
    assert sorted((one.number, one.model) for one in claimed) == [
        (first + number, "qwen3.6-35b" if "qwen" in model else "glm-5.3-flash") for number, model in enumerate(models)
    ]


@pytest.mark.parametrize("wrong", range(7))
async def test_of_a_large_batch_with_a_wrong_request_nothing_stays(api, monkeypatch, wrong):
    monkeypatch.setattr("fibatchd.web.intake.AT_ONCE", 3)
    monkeypatch.setattr("fibatchd.web.work.PIECE_ITEMS", 2)
    requests = [chat(f"q-{number}") for number in range(7)]
    requests[wrong] = chat("q-x", temperature=3)
    answer = await create(api, {"requests": requests})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == f"requests[{wrong}].body.temperature"
    assert (await api.call("GET", "/v1/batches")).json()["data"] == []
    await purged(api)
    for table in ("batches", "requests", "request_bodies", "lanes"):
        assert await rows(api, f"SELECT * FROM {table}") == []


async def rows(api, sql):
    def select():
        return (yield Query(sql))

    return await api.store.read(select)


async def purged(api):
    while job := await api.store.write(jobs.take, "purge", await api.store.write(leases.register, "test")):
        while await api.store.write(sweeps.purge, job.subject):
            pass
        await api.store.write(jobs.done, job)
