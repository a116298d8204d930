"""Embedding requests and answers on their way: byte for byte, but for the model's name, and base64 where it was asked for."""

import base64
import json
import math
import random
import struct

import pytest
from fibatchd_plugins.embeddings.endpoint import PATH, Embeddings
from hypothesis import given
from hypothesis import strategies as st

from fibatchd.config import Model, Price, Upstream
from fibatchd.domain.requests import Usage
from fibatchd.inference.cost import cost_of
from fibatchd.inference.endpoint import BrokenReply, Call, Route

ENDPOINT = Embeddings()
UPSTREAM = Upstream(url="http://h/v1", endpoints=(PATH,), model="up/model")
ROUTE = Route(Model(id="public", upstreams=(UPSTREAM,)), UPSTREAM)
ODD = (
    b'{ "input" : ["\\ud800 \\"model\\"", "\xc3\xa9"],"model":"public" ,\n'
    b' "dimensions":16.0, "x":12345678901234567890123, "y":1e-300}'
)
ANSWER = (
    b'{"object":"list", "data":[ {"object":"embedding","index":0,"embedding":[0.10, -1e-3,\n 2.0000000000000001E0] , "x":"\\ud800"}],'
    b' "model":"up/model","usage":{"prompt_tokens":3,"total_tokens":3} }'
)
RENAMED = ANSWER.replace(b"up/model", b"public")


def reply(answer: bytes, **asked: str):
    call = ENDPOINT.call(json.dumps({"model": "public", "input": "x", **asked}).encode(), ROUTE, {})
    return ENDPOINT.reply(answer, call, ROUTE)


def answer_of(*vectors, **more) -> bytes:
    data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    return json.dumps({"object": "list", "data": data, "model": "up/model"} | more).encode()


def test_a_body_goes_on_byte_for_byte_but_for_the_model():
    assert ENDPOINT.call(ODD, ROUTE, {}) == Call(PATH, ODD.replace(b'"public"', b'"up/model"'), memo=False)


@pytest.mark.parametrize("asked", [{}, {"encoding_format": "float"}])
def test_floats_come_back_byte_for_byte(asked):
    found = reply(ANSWER, **asked)
    assert found.body == RENAMED
    assert found.usage == Usage(3, 0, 0, 0)


def test_base64_comes_back_byte_for_byte_where_the_server_knows_it():
    answer = answer_of("AACAPw==", "AAAAQA==")
    assert reply(answer, encoding_format="base64").body == answer.replace(b"up/model", b"public")


def test_floats_become_base64_where_that_was_asked_for():
    found = reply(ANSWER, encoding_format="base64")
    vector = base64.b64encode(struct.pack("<3f", 0.1, -1e-3, 2.0))
    expected = RENAMED.replace(b"[0.10, -1e-3,\n 2.0000000000000001E0]", b'"' + vector + b'"')
    assert found.body == expected.replace(b"[ {", b"[{")
    assert found.usage == Usage(3, 0, 0, 0)


def test_integers_and_a_mix_of_forms_become_base64_as_well():
    found = json.loads(reply(answer_of([1, -2], "AACAPw==", [0.5]), encoding_format="base64").body)
    vectors = [struct.unpack(f"<{len(raw) // 4}f", raw) for raw in map(decoded, found["data"])]
    assert vectors == [(1.0, -2.0), (1.0,), (0.5,)]


def decoded(item):
    return base64.b64decode(item["embedding"], validate=True)


@given(st.lists(st.lists(st.floats(allow_nan=False, width=32), min_size=1), min_size=1))
def test_base64_is_the_very_floats(vectors):
    vectors = [[value for value in vector if math.isfinite(value)] for vector in vectors]
    found = json.loads(reply(answer_of(*vectors), encoding_format="base64").body)
    assert [
        list(struct.unpack(f"<{len(v)}f", decoded(i))) for v, i in zip(vectors, found["data"], strict=True)
    ] == vectors


@pytest.mark.parametrize(
    "data", ["null", "{}", '"x"', "7", '[{"index":0}]', '[{"embedding":null}]', '[{"embedding":[null]}]', "[7]", '[{"embedding":{}}]']
)  # fmt: skip
def test_an_answer_without_vectors_is_broken(data):
    with pytest.raises(BrokenReply):
        reply(b'{"object":"list","data":' + data.encode() + b"}", encoding_format="base64")


@pytest.mark.parametrize("answer", [b"{}", b'{"data":null}', b'{"data":{}}', b'{"error":{"message":"x"}}'])
def test_an_object_without_data_is_no_answer(answer):
    with pytest.raises(BrokenReply):
        reply(answer)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 8, "total_tokens": 8}, Usage(8, 0, 0, 0)),
        ({"prompt_tokens": 8, "total_tokens": 8, "completion_tokens": 0}, Usage(8, 0, 0, 0)),
        ({"total_tokens": 8}, None),
        ({}, None),
        (None, None),
        ("free", None),
    ],
)
def test_usage_and_cost(usage, expected):
    found = reply(answer_of([0.5], usage=usage)).usage
    assert found == expected
    assert cost_of(Price(input=10_000, cached_input=10_000), found) == (80_000 if expected else None)


def test_a_large_answer_keeps_every_digit():
    rng = random.Random(7)
    vectors = [[rng.gauss(0, 0.05) for _ in range(1024)] for _ in range(64)]
    answer = answer_of(*vectors, usage={"prompt_tokens": 640, "total_tokens": 640})
    assert len(answer) > 2**20
    assert reply(answer).body == answer.replace(b'"up/model"', b'"public"')
