"""Embeddings with the OpenAI SDK against a server that knows floats only: directly, and in batches of both forms."""

import array
import base64
import json
import subprocess
from pathlib import Path

import openai
import pytest
import sdks
from endpoint_models import TOKENS, embeddings, vector
from endpoints_stand import bodies_of

URL = "/v1/embeddings"
TEXTS = ["one", "two \u2028 é 😀", "three"]
INPUTS = ["one", TEXTS, [1, 2, 3], [[1, 2], [3]]]


def single(values):
    """The nearest 32-bit floats."""
    return array.array("f", values).tolist()


@pytest.mark.parametrize("given", INPUTS, ids=["text", "texts", "tokens", "token lists"])
def test_the_sdk_asks_for_base64_by_itself_and_gets_it(stand, given):
    found = stand.client.embeddings.create(model="embed", input=given)
    several = given if isinstance(given[0], str | list) and not isinstance(given, str) else [given]
    assert [item.embedding for item in found.data] == [single(vector(one)) for one in several]
    assert (found.model, found.usage.prompt_tokens, found.usage.total_tokens) == (
        "embed",
        TOKENS * len(several),
        TOKENS * len(several),
    )
    assert stand.models.calls[-1].json["encoding_format"] == "base64"
    assert stand.models.calls[-1].json["model"] == "their-embedder"


def test_floats_have_all_their_digits(stand):
    found = stand.client.embeddings.create(
        model="embed-latest", input=TEXTS, encoding_format="float", dimensions=16, user="u"
    )
    assert [item.embedding for item in found.data] == [vector(text, 16) for text in TEXTS]
    raw = stand.client.embeddings.with_raw_response.create(model="embed", input=TEXTS, encoding_format="float")
    asked = stand.models.calls[-1].json
    assert raw.http_response.content == embeddings(asked).replace(b"their-embedder", b"embed")


def test_base64_for_who_wants_it_as_it_is(stand):
    found = stand.client.embeddings.create(model="embed", input="one", encoding_format="base64").data[0].embedding
    assert array.array("f", base64.b64decode(found)).tolist() == single(vector("one"))


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": ["x"] * 65}, "input"),
        ({"input": "x", "dimensions": 65}, "dimensions"),
        ({"input": "x", "stream": True}, "stream"),
    ],
)
def test_what_is_refused_is_named(stand, wrong, param):
    body = {"model": "embed"} | wrong
    with pytest.raises(openai.BadRequestError) as refused:
        stand.client.post("/embeddings", cast_to=object, body=body)
    assert refused.value.param == param
    with pytest.raises(openai.BadRequestError) as refused:
        stand.inline(URL, [{"model": "embed", "input": "x"}, body])
    assert refused.value.param == f"requests[1].body.{param}"
    assert refused.value.body["message"].startswith(f"requests[1] (custom_id '1'): {param}: ")


def test_a_model_that_does_not_embed(stand):
    with pytest.raises(openai.NotFoundError):
        stand.client.embeddings.create(model="translated", input="x")


@pytest.mark.parametrize("form", ["inline", "from_file"])
def test_a_batch(stored, form):
    bodies = [{"model": "embed", "input": given} for given in INPUTS]
    bodies += [
        {"model": "embed", "input": "one", "encoding_format": "base64"},
        {"model": "embed", "input": "one", "dimensions": 3},
    ]
    batch = getattr(stored, form)(URL, bodies)
    assert batch.endpoint == URL
    lines = stored.completed(batch, len(bodies))
    for line, body in zip(lines, bodies, strict=True):
        if "encoding_format" not in body:
            plain = embeddings(body | {"model": "embed"})
            assert b'"body":' + plain.replace(b"\n", b" ") in line, "the very bytes, on one line"
    encoded = bodies_of(lines)[-2]["data"][0]["embedding"]
    assert array.array("f", base64.b64decode(encoded)).tolist() == single(vector("one"))
    ended = stored.ended(batch)
    tokens = TOKENS * (1 + 3 + 1 + 2 + 1 + 1)
    assert (ended.usage.input_tokens, ended.usage.output_tokens, ended.usage.total_tokens) == (tokens, 0, tokens)
    assert ended.to_dict()["cost_usd"] == pytest.approx(tokens * 0.01 / 1_000_000)
    assert ended.to_dict()["cost_unknown_attempts"] == 0
    page = stored.client.get(f"/batches/{batch.id}/results", cast_to=object)
    assert [item["status"] for item in page["data"]] == ["completed"] * len(bodies)


def test_results_of_many_floats_are_kept_to_the_byte(stored):
    bodies = [{"model": "embed-wide", "input": ["x"] * 64, "dimensions": 2000 + n} for n in range(3)]
    lines = stored.completed(stored.inline(URL, bodies), len(bodies))
    for line, body in zip(lines, bodies, strict=True):
        answer = embeddings(body)
        assert 3 * 2**20 < len(answer) < 4 * 2**20, "as large as a result may be"
        assert b'"body":' + answer.replace(b"\n", b" ") in line


def test_a_result_that_is_too_large_is_said(stored):
    batch = stored.ended(stored.inline(URL, [{"model": "embed-wide", "input": ["x"] * 64, "dimensions": 4000}]))
    assert batch.request_counts.failed == 1
    (found,) = stored.client.get(f"/batches/{batch.id}/results", cast_to=object)["data"]
    assert found["error"]["code"] == "result_too_large"


def test_a_file_with_a_wrong_line_names_it(stored):
    batch = stored.ended(stored.from_file(URL, [{"model": "embed", "input": "x"}, {"model": "embed", "input": []}]))
    assert batch.status == "failed"
    problem = batch.errors.data[0]
    assert (problem.line, problem.code, problem.param) == (2, "invalid_request", "body.input")


NODE = """
import assert from "node:assert/strict";
import OpenAI from "openai";
const [base, key, expected] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base + "/v1", apiKey: key, maxRetries: 0 });
const texts = JSON.parse(expected);
const plain = await client.embeddings.create({ model: "embed", input: Object.keys(texts) });
assert.deepEqual(plain.data.map((item) => Array.from(item.embedding)), Object.values(texts));
const floats = await client.embeddings.create({ model: "embed", input: Object.keys(texts), encoding_format: "float" });
assert.deepEqual(floats.data.map((item) => item.embedding.map(Math.fround)), Object.values(texts));
"""


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.104.0", "6.49.0"])
def test_the_node_sdk_which_takes_whatever_comes_for_base64(stand, needs, version):
    node = needs("node")
    folder = sdks.node_modules_with(needs("npm"), "openai", version)
    script = Path(folder, "embeddings.mjs")
    script.write_text(NODE)
    expected = json.dumps({text: single(vector(text)) for text in TEXTS})
    done = subprocess.run(
        [node, script, stand.daemon.base, stand.key, expected], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
