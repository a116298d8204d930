"""The chat schema: right verdicts on a corpus, the same ones from both validators, no documented field forgotten, useful errors."""

import importlib.resources
import json
from typing import Any, get_type_hints

import jsonschema
import jsonschema_rs
import pytest
from chat_corpus import FIELDS, USER, cases
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

from fibatchd.inference.schema import BodySchema, load_schema

SCHEMA = json.loads((importlib.resources.files("fibatchd_schemas") / "chat_completions.schema.json").read_text())
REFERENCE = jsonschema.Draft202012Validator(SCHEMA)
CASES = list(cases())
DOCUMENTED = set(get_type_hints(CompletionCreateParamsNonStreaming))


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [USER], **fields}


@pytest.mark.parametrize(("valid", "value"), [pytest.param(valid, value, id=name) for name, valid, value in CASES])
def test_both_validators_give_the_expected_verdict(valid, value):
    assert REFERENCE.is_valid(value) is valid
    assert (load_schema("chat_completions").problem(value) is None) is valid


def test_the_corpus_is_large_and_balanced():
    verdicts = [valid for _, valid, _ in CASES]
    assert verdicts.count(True) >= 100
    assert verdicts.count(False) >= 200
    assert len({name for name, _, _ in CASES}) == len(CASES)


def test_the_schema_is_a_valid_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert jsonschema_rs.meta.is_valid(SCHEMA)


def test_every_documented_field_is_in_the_schema_and_in_the_corpus():
    assert set(SCHEMA["properties"]) == DOCUMENTED
    assert set(FIELDS) == DOCUMENTED


@pytest.mark.parametrize(
    ("value", "param", "sentence"),
    [
        ([], "", "expected an object, got an array"),
        ({"model": "m"}, "messages", "messages: missing"),
        (body(model=None), "model", "model: expected a string, got null"),
        (body(messages=[]), "messages", "messages: must not be empty"),
        (body(messages=[USER, {"role": "user", "content": 3}]), "messages[1].content", "messages[1].content: expected a string or an array of content parts, got a number"),
        (body(messages=[{"role": "user"}]), "messages[0].content", "messages[0].content: missing, expected a string or an array of content parts"),
        (body(messages=[{"role": "user", "content": [{"type": "text"}]}]), "messages[0].content[0].text", "messages[0].content[0].text: missing"),
        (body(messages=[{"role": "robot"}]), "messages[0].role", 'messages[0].role: expected "developer", "system", "user", "assistant", "tool" or "function"'),
        (body(temperature=2.5), "temperature", "temperature: must be at most 2, got 2.5"),
        (body(temperature=10**400), "temperature", "temperature: must be at most 2, got a longer number"),
        (body(max_tokens=0), "max_tokens", "max_tokens: must be at least 1, got 0"),
        (body(stop=["a"] * 5), "stop", "stop: must have at most 4 items, has 5"),
        (body(logit_bias={"50256": 101}), "logit_bias.50256", "logit_bias.50256: must be at most 100, got 101"),
        (body(logit_bias={"007": 101}), "logit_bias.7", "logit_bias.7: must be at most 100, got 101"),
        (body(metadata={"k" * 65: ""}), "metadata", "metadata: a key must have at most 64 characters, has 65"),
        (body(metadata={"a": 1}), "metadata.a", "metadata.a: expected a string, got a number"),
        (body(verbosity="\ud800"), "verbosity", 'verbosity: expected "low", "medium" or "high"'),
        (body(**{"\ud800": 1}, model=[]), "model", "model: expected a string, got an array"),
        (body(top_logprobs=3), "logprobs", "logprobs: missing, expected true, because top_logprobs is set"),
        (body(tool_choice=3), "tool_choice", 'tool_choice: expected "none", "auto", "required" or an object that names a tool, got a number'),
        (body(tools=[{"type": "function", "function": {"name": "a b"}}]), "tools[0].function.name", "tools[0].function.name: expected 1 to 64 letters, digits, underscores and dashes"),
        (body(**{"\ud800": 1}, n=0), "n", "n: must be at least 1, got 0"),
    ],
)  # fmt: skip
def test_a_problem_names_the_field_and_says_what_is_expected(value, param, sentence):
    assert load_schema("chat_completions").problem(value) == (param, sentence)


def test_no_problem_quotes_a_text_of_the_client():
    secret = "my secret prompt"

    def texts_replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: texts_replaced(item) for key, item in value.items()}
        if isinstance(value, list):
            return [texts_replaced(item) for item in value]
        return secret if isinstance(value, str) else value

    problems = [load_schema("chat_completions").problem(texts_replaced(value)) for _, _, value in CASES]
    assert any(problems)
    assert not [problem for problem in problems if problem and secret in problem.message + problem.param]


def test_lone_surrogates_change_no_verdict():
    schema = BodySchema({"maxProperties": 2, "additionalProperties": {"type": ["string", "array"], "maxLength": 2}})
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    one, other = chr(0xD800), chr(0xDFFF)
    assert schema.problem({one: one + other, other: deep}) is None
    assert schema.problem({one: one * 3}).message.endswith("must have at most 2 characters, has 3")
    assert schema.problem({one: "", other: "", "a": ""}) == ("", "must have at most 2 keys, has 3")


def test_of_several_branches_the_one_that_fits_furthest_is_explained():
    schema = BodySchema({"anyOf": [{"type": "string"}, {"properties": {"a": {"items": {"type": "integer"}}}}]})
    assert schema.problem("x") is None
    assert schema.problem({"a": [1, "x"]}) == ("a[1]", "a[1]: expected an integer, got a string")


def test_an_unknown_key_is_named_where_a_schema_is_closed():
    schema = BodySchema({"properties": {"a": True}, "additionalProperties": False})
    assert schema.problem({"a": 1, "b": 2}) == ("b", "b: unknown key")
    assert schema.problem({"b" * 100: 2}) == ("b" * 64 + "…", "b" * 64 + "…: unknown key")
