"""Which Responses requests are refused on every route: wrong shapes, and what is not independent."""

import json
from importlib import resources

import jsonschema
import jsonschema_rs
import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from response_routes import ENDPOINT, NATIVE, PATH, TRANSLATED, model, problem
from typing_extensions import get_type_hints

from fibatchd.config import CHAT_COMPLETIONS, Model, Upstream

SCHEMA = json.loads((resources.files("fibatchd_schemas") / "responses.schema.json").read_text())
REFERENCE = jsonschema.Draft202012Validator(SCHEMA)
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "4"}
FUNCTION = {"type": "function", "name": "f", "parameters": {}, "strict": True}

WRONG = [
    ({"input": None}, "input: expected a string or an array of items, got null"),
    ({"input": []}, "input: must not be empty"),
    ({"input": [7]}, "input[0]: expected an object, got a number"),
    ({"input": [{"role": "robot", "content": "x"}]}, 'input[0].role: expected "user", "assistant", "system" or "developer"'),
    ({"input": [{"role": "user"}]}, "input[0].content: missing, expected a string or an array of content parts"),
    ({"input": [{"role": "user", "content": []}]}, "input[0].content: must not be empty"),
    ({"input": [{"role": "user", "content": [{"text": "x"}]}]}, "input[0].content[0].type: missing"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text: missing"),
    ({"input": [{"type": "message", "content": "x"}]}, "input[0].role: missing"),
    ({"input": [CALL | {"arguments": {}}]}, "input[0].arguments: expected a string, got an object"),
    ({"input": [CALL, {"type": "function_call_output", "output": "4"}]}, "input[1].call_id: missing"),
    ({"input": [CALL, OUTPUT | {"output": 4}]}, "input[1].output: expected a string or an array of content parts, got a number"),
    ({"instructions": ["x"]}, "instructions: expected a string, got an array"),
    ({"max_output_tokens": 0}, "max_output_tokens: must be at least 1, got 0"),
    ({"temperature": 2.5}, "temperature: must be at most 2, got 2.5"),
    ({"top_p": -1}, "top_p: must be at least 0, got -1"),
    ({"top_logprobs": 21}, "top_logprobs: must be at most 20, got 21"),
    ({"metadata": {"a": 1}}, "metadata.a: expected a string, got a number"),
    ({"reasoning": {"effort": ""}}, "reasoning.effort: must not be empty"),
    ({"store": "no"}, "store: expected true or false, got a string"),
    ({"text": {"format": {"type": "json_schema", "name": "a b", "schema": {}}}}, "text.format.name: expected 1 to 64 letters, digits, underscores and dashes"),
    ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema: missing, expected a JSON Schema as an object"),
    ({"text": {"format": {"type": "yaml"}}}, 'text.format.type: expected "text", "json_object" or "json_schema"'),
    ({"text": {"verbosity": "chatty"}}, 'text.verbosity: expected "low", "medium" or "high"'),
    ({"tools": [{"name": "f"}]}, "tools[0].type: missing"),
    ({"tools": [{"type": "function"}]}, "tools[0].name: missing, expected 1 to 64 letters, digits, underscores and dashes"),
    ({"tool_choice": "any"}, 'tool_choice: expected "none", "auto" or "required"'),
    ({"tool_choice": {"type": "function"}}, "tool_choice.name: missing"),
    ({"service_tier": "cheap"}, 'service_tier: expected "auto", "default", "flex", "scale", "priority", "fast" or "ultrafast"'),
    ({"truncation": "middle"}, 'truncation: expected "auto" or "disabled"'),
    ({"stream_options": {}}, "stream: missing, expected true, because stream_options is set"),
]  # fmt: skip

FILE = {"type": "input_file", "file_data": "JVBERi0="}
IMAGE_FILE = {"type": "input_image", "detail": "auto", "file_id": "file-1"}
NOT_STORED = "must be left out: responses are not stored, so that there is nothing to go on from"
HOSTED = "hosted tools are not served; a tool is one that the client runs"
NO_FILES = "files cannot be given to a request"
NO_ITEMS = "items cannot be referred to: none are stored"
DEPENDENT = [
    ({"store": True}, "store", "must be false or left out: responses are not stored"),
    ({"background": True}, "background", "must be false or left out: a request runs once, in a batch or while its caller waits"),
    ({"previous_response_id": "resp_1"}, "previous_response_id", NOT_STORED),
    ({"conversation": "conv_1"}, "conversation", NOT_STORED),
    ({"conversation": {"id": "conv_1"}}, "conversation", NOT_STORED),
    ({"prompt": {"id": "pmpt_1"}}, "prompt", "must be left out: there are no stored prompts"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]", NO_ITEMS),
    ({"input": [{"id": "msg_1"}]}, "input[0]", NO_ITEMS),
    ({"input": [{"id": "msg_1", "type": None}]}, "input[0]", NO_ITEMS),
    ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}, FILE]}]}, "input[0].content[1]", NO_FILES),
    ({"input": [CALL, OUTPUT | {"output": [FILE]}]}, "input[1].output[0]", NO_FILES),
    ({"input": [{"role": "user", "content": [IMAGE_FILE]}]}, "input[0].content[0].file_id", f"{NO_FILES}; send the image as image_url"),
    ({"tools": [FUNCTION, {"type": "web_search"}]}, "tools[1].type", HOSTED),
    *[
        ({"tools": [{"type": kind}]}, "tools[0].type", HOSTED)
        for kind in ("file_search", "web_search_preview_2025_03_11", "code_interpreter", "image_generation", "mcp", "shell", "tool_search", "programmatic_tool_calling", "from_the_future")
    ],
    ({"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, "tools[0].type", HOSTED),
    ({"tools": [{"type": "namespace", "name": "n", "description": "", "tools": [FUNCTION, {"type": "mcp"}]}]}, "tools[0].tools[1].type", HOSTED),
    ({"input": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "mcp"}]}]}, "input[0].tools[0].type", HOSTED),
]  # fmt: skip


@pytest.mark.parametrize("of", [TRANSLATED, NATIVE], ids=["translated", "native"])
@pytest.mark.parametrize(("members", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_shapes_are_refused_by_name(members, message, of):
    found = problem(members, of, batch="stream_options" not in members)
    assert (found.message, found.code) == (message, "invalid_request")
    assert found.param == message.partition(":")[0]
    assert not REFERENCE.is_valid({"model": "m", "input": "x"} | members)


@pytest.mark.parametrize("of", [TRANSLATED, NATIVE], ids=["translated", "native"])
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(("members", "param", "why"), DEPENDENT, ids=range(len(DEPENDENT)))
def test_what_is_not_independent_is_refused_on_every_route_and_interactively_too(members, param, why, batch, of):
    found = problem(members, of, batch=batch)
    assert (found.message, found.param, found.code) == (f"{param}: {why}", param, "invalid_request")
    assert REFERENCE.is_valid({"model": "m", "input": "x"} | members)


def test_streaming_is_for_interactive_calls():
    found = problem({"stream": True})
    assert (found.param, found.code) == ("stream", "streaming_unsupported")
    assert problem({"stream": True}, batch=False) is None
    assert problem({"stream": False}) is None


NATIVE_ONLY = [
    {"include": ["reasoning.encrypted_content"]},
    {"truncation": "auto"},
    {"reasoning": {"effort": "low", "summary": "auto"}},
    {"max_tool_calls": 3},
    {"context_management": [{"type": "compaction"}]},
    {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}, {"role": "user", "content": "x"}]},
    {"input": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
    {"tools": [{"type": "custom", "name": "sql"}]},
    {"tools": [{"type": "local_shell"}]},
    {"tools": [{"type": "shell", "environment": {"type": "local"}}]},
    {"tools": [{"type": "tool_search", "execution": "client"}]},
    {"tools": [{"type": "namespace", "name": "n", "description": "", "tools": [FUNCTION]}]},
    {"service_tier": "flex"},
    {"top_k": 5},
]


@pytest.mark.parametrize("members", NATIVE_ONLY, ids=range(len(NATIVE_ONLY)))
def test_what_only_a_native_upstream_carries(members):
    assert problem(members, NATIVE) is None
    refused = problem(members, TRANSLATED)
    assert refused.param.startswith(next(iter(members)))
    assert refused.message.endswith("be carried over to this model's server")


def test_with_a_native_upstream_among_others_it_carries_what_they_cannot():
    assert problem({"max_tool_calls": 3}, model(CHAT_COMPLETIONS, PATH)) is None


@pytest.mark.parametrize(
    ("options", "carried"),
    [
        ({"url": "http://h/v1", "endpoints": (PATH,)}, True),
        ({"url": "http://h/v1", "endpoints": (CHAT_COMPLETIONS,)}, True),
        ({"url": "http://h/v1", "endpoints": ("/v1/embeddings",)}, False),
        ({"url": "http://h", "protocol": "anthropic", "endpoints": ("/v1/messages",)}, False),
        ({"url": "echo:", "endpoints": (CHAT_COMPLETIONS, PATH)}, True),
    ],
)
def test_which_upstreams_carry_responses(options, carried):
    upstream = Upstream(model="m", **options)
    assert ENDPOINT.carries(Model(id="m", upstreams=(upstream,)), upstream) is carried


def test_the_schema_is_valid_and_knows_every_documented_field():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert jsonschema_rs.meta.is_valid(SCHEMA)
    assert set(SCHEMA["properties"]) == set(get_type_hints(ResponseCreateParamsNonStreaming))


ANYTHING = [None, 7, -0.0, True, "x", [7], [None], [[]], ["x"], {"a": 1}, [{"type": None}], [{"type": []}]]


@pytest.mark.parametrize("anything", ANYTHING, ids=str)
@pytest.mark.parametrize("member", ["content", "output", "tools"])
@pytest.mark.parametrize("kind", ["unheard_of", "additional_tools", "reasoning"])
def test_whatever_stands_in_items_of_types_that_the_schema_leaves_open_is_no_fault_of_ours(kind, member, anything):
    for of in (NATIVE, TRANSLATED):
        problem({"input": [{"type": kind, member: anything}]}, of)


@pytest.mark.parametrize("anything", ANYTHING, ids=str)
def test_whatever_stands_in_a_namespace_is_no_fault_of_ours(anything):
    for of in (NATIVE, TRANSLATED):
        problem({"tools": [{"type": "namespace", "tools": anything}]}, of)
