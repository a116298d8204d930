"""Which embedding requests are refused, and why: the documented shapes, and what the model takes."""

import json
from importlib import resources
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from fibatchd_plugins.embeddings.endpoint import PATH, Embeddings

from fibatchd.config import Capabilities, Model, Upstream

ENDPOINT = Embeddings()
SCHEMA = json.loads((resources.files("fibatchd_schemas") / "embeddings.schema.json").read_text())
REFERENCE = jsonschema.Draft202012Validator(SCHEMA)

RIGHT: list[dict[str, Any]] = [
    {"input": "one text"},
    {"input": " "},
    {"input": ["one", "two"]},
    {"input": ["one"] * 2048},
    {"input": [1, 2, 3]},
    {"input": [0]},
    {"input": [5.0]},
    {"input": [[1, 2], [3]]},
    {"input": "x", "dimensions": 1},
    {"input": "x", "encoding_format": "float"},
    {"input": "x", "encoding_format": "base64"},
    {"input": "x", "user": "u"},
    {"input": "x", "dimensions": None, "encoding_format": None, "user": None, "stream": None},
    {"input": "x", "stream": False},
    {"input": "x", "truncate_prompt_tokens": 8, "input_type": {"of": ["vLLM"]}},
]
FORMS = "a string, an array of strings, an array of token ids or an array of arrays of token ids"
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, f"input: missing, expected {FORMS}"),
    ({"input": None}, f"input: expected {FORMS}, got null"),
    ({"input": 7}, f"input: expected {FORMS}, got a number"),
    ({"input": {}}, f"input: expected {FORMS}, got an object"),
    ({"input": ""}, "input: must not be empty"),
    ({"input": []}, "input: must not be empty"),
    ({"input": ["a", ""]}, "input[1]: must not be empty"),
    ({"input": ["a", 1]}, "input[1]: expected a string, got a number"),
    ({"input": ["a", None]}, "input[1]: expected a string, got null"),
    ({"input": [None]}, "input[0]: expected a string, got null"),
    ({"input": [True]}, "input[0]: expected a string, got a boolean"),
    ({"input": [1, "a"]}, "input[1]: expected a token id, got a string"),
    ({"input": [1, -1]}, "input[1]: must be at least 0, got -1"),
    ({"input": [1, [2]]}, "input[1]: expected a token id, got an array"),
    ({"input": [1.5]}, "input[0]: expected a string, got a number"),
    ({"input": [[]]}, "input[0]: must not be empty"),
    ({"input": [[1], 2]}, "input[1]: expected an array, got a number"),
    ({"input": [[1], [1, "a"]]}, "input[1][1]: expected a token id, got a string"),
    ({"input": [[[1]]]}, "input[0][0]: expected a token id, got an array"),
    ({"input": "x", "dimensions": 0}, "dimensions: must be at least 1, got 0"),
    ({"input": "x", "dimensions": 1.5}, "dimensions: expected an integer, got a number"),
    ({"input": "x", "dimensions": "8"}, "dimensions: expected an integer, got a string"),
    ({"input": "x", "encoding_format": "int8"}, 'encoding_format: expected "float" or "base64"'),
    ({"input": "x", "user": 1}, "user: expected a string, got a number"),
    ({"input": "x", "stream": "no"}, "stream: expected true or false, got a string"),
]


def body(members: dict[str, Any]) -> bytes:
    return json.dumps({"model": "m"} | members).encode()


def problem(members: dict[str, Any], *, batch: bool = True, **capabilities: Any) -> Any:
    upstream = Upstream(url="http://h/v1", endpoints=(PATH,), model="m")
    model = Model(id="m", capabilities=Capabilities(**capabilities), upstreams=(upstream,))
    text = body(members)
    return ENDPOINT.check(text, batch=batch, options={}) or ENDPOINT.route_problem(text, model)


@pytest.mark.parametrize("members", RIGHT, ids=range(len(RIGHT)))
def test_what_is_taken(members):
    assert problem(members) is None
    assert problem(members, batch=False) is None


@pytest.mark.parametrize(("members", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_refused(members, message):
    found = problem(members)
    assert (found.message, found.code) == (message, "invalid_request")
    assert found.param == message.partition(":")[0]


def test_the_reference_implementation_agrees():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert jsonschema_rs.meta.is_valid(SCHEMA)
    assert all(REFERENCE.is_valid({"model": "m"} | members) for members in RIGHT)
    assert not any(REFERENCE.is_valid({"model": "m"} | members) for members, _ in WRONG)


@pytest.mark.parametrize("batch", [True, False])
def test_nothing_can_be_streamed(batch):
    found = problem({"input": "x", "stream": True}, batch=batch)
    assert (found.param, found.code) == ("stream", "streaming_unsupported")


LIMITS = [
    ({"max_inputs": 2}, {"input": ["a", "b"]}, None),
    ({"max_inputs": 2}, {"input": ["a", "b", "c"]}, "input: the model takes at most 2 inputs at once, got 3"),
    ({"max_inputs": 2}, {"input": [[1], [2], [3]]}, "input: the model takes at most 2 inputs at once, got 3"),
    ({"max_inputs": 1}, {"input": [1, 2, 3]}, None),
    ({"max_inputs": 1}, {"input": "a text of many words"}, None),
    ({}, {"input": ["a"] * 2049}, "input: the model takes at most 2048 inputs at once, got 2049"),
    ({"max_input_tokens": 3}, {"input": [1, 2, 3]}, None),
    ({"max_input_tokens": 3}, {"input": [1, 2, 3, 4]}, "input: the model takes at most 3 tokens, got 4"),
    ({"max_input_tokens": 3}, {"input": [[1], [1, 2, 3, 4]]}, "input[1]: the model takes at most 3 tokens, got 4"),
    ({"max_input_tokens": 1}, {"input": ["words are not counted here"]}, None),
    ({"max_dimensions": 64}, {"input": "x", "dimensions": 64}, None),
    ({"max_dimensions": 64}, {"input": "x", "dimensions": 65}, "dimensions: the model takes at most 64, got 65"),
    (
        {"max_dimensions": 0},
        {"input": "x", "dimensions": 64},
        "dimensions: the model's embeddings have one size, which cannot be chosen",
    ),
    ({"max_dimensions": 0}, {"input": "x", "dimensions": None}, None),
    ({}, {"input": "x", "dimensions": 10**30}, None),
]


@pytest.mark.parametrize(("capabilities", "members", "message"), LIMITS, ids=range(len(LIMITS)))
def test_limits_of_the_model(capabilities, members, message):
    found = problem(members, **capabilities)
    assert (found and found.message) == message
    assert not found or found.param == message.partition(":")[0]
