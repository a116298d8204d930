"""Responses with the OpenAI SDK, directly: against a server of chat completions only, and against one of responses."""

import json

import openai
import pytest
from endpoint_models import ARGUMENTS, JSON_ANSWER
from pydantic import BaseModel

FUNCTION = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
    "strict": True,
}  # fmt: skip


class Answer(BaseModel):
    answer: int
    why: str


def last_call(stand):
    call = stand.models.calls[-1]
    assert call.path == "/v1/chat/completions"
    return call.json


def test_create(stand):
    found = stand.client.responses.create(
        model="translated", input="Hello", instructions="Be brief.", max_output_tokens=64
    )
    assert (found.output_text, found.status, found.model) == ("You said: Hello", "completed", "translated")
    assert (found.instructions, found.max_output_tokens, found.store) == ("Be brief.", 64, False)
    assert found.usage.input_tokens_details.cached_tokens == 10
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.total_tokens) == (30, 12, 42)
    assert found.usage.output_tokens_details.reasoning_tokens == 5
    assert last_call(stand) == {
        "model": "their-chat",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "max_tokens": 64,
    }


def test_parse_with_a_json_schema(stand):
    found = stand.client.responses.parse(model="translated", input="What is it?", text_format=Answer)
    assert found.output_parsed == Answer(answer=42, why="because")
    wanted = last_call(stand)["response_format"]
    assert (wanted["type"], wanted["json_schema"]["name"], wanted["json_schema"]["strict"]) == (
        "json_schema",
        "Answer",
        True,
    )
    assert set(wanted["json_schema"]["schema"]["properties"]) == {"answer", "why"}
    assert json.loads(found.output_text) == json.loads(JSON_ANSWER)


def test_a_function_is_called_and_its_output_sent_back(stand):
    question = {"role": "user", "content": "tool"}
    first = stand.client.responses.create(model="translated", input=[question], tools=[FUNCTION], tool_choice="auto")
    call = first.output[0]
    assert (call.type, call.name, call.call_id, call.arguments, call.status) == (
        "function_call", "get_weather", "call_1", ARGUMENTS, "completed",
    )  # fmt: skip
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    second = stand.client.responses.create(
        model="translated", input=[question, *first.output, output], tools=[FUNCTION]
    )
    assert second.output_text == "You said: rain"
    assert last_call(stand)["messages"] == [
        question,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ]
    third = stand.client.responses.create(
        model="translated", input=[question, *second.output, {"role": "user", "content": "x"}]
    )
    assert third.status == "completed"


def test_refusals_incomplete_answers_and_logprobs(stand):
    refused = stand.client.responses.create(model="translated", input="refuse")
    assert (refused.output[0].content[0].type, refused.output[0].content[0].refusal) == ("refusal", "I will not.")
    cut = stand.client.responses.create(model="translated", input="long")
    assert (cut.status, cut.incomplete_details.reason, cut.output[0].status) == (
        "incomplete",
        "max_output_tokens",
        "incomplete",
    )
    likely = stand.client.responses.create(model="translated", input="x", top_logprobs=2)
    (entry,) = likely.output[0].content[0].logprobs
    assert (entry.token, entry.logprob, len(entry.top_logprobs)) == ("You said: x", -0.25, 2)


def test_streaming(stand):
    kinds, text = [], ""
    for event in stand.client.responses.create(model="translated", input="Hello", stream=True, temperature=0):
        kinds.append(event.type)
        text += event.delta if event.type == "response.output_text.delta" else ""
    assert text == event.response.output_text == "You said: Hello"
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert (event.response.usage.total_tokens, event.response.temperature) == (42, 0)
    assert last_call(stand)["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("prompt", ["Hello", "tool", "refuse", "long"])
def test_a_stream_ends_in_what_create_returns(stand, prompt):
    asked = {"model": "translated", "input": prompt, "tools": [FUNCTION]}
    whole = stand.client.responses.create(**asked)
    *_, last = stand.client.responses.create(stream=True, **asked)
    assert last.type == ("response.incomplete" if prompt == "long" else "response.completed")
    assert plain(last.response) == plain(whole)
    if prompt != "long":  # the helper knows no other end than a completed one
        with stand.client.responses.stream(**asked) as stream:
            assert plain(stream.get_final_response()) == plain(whole)


def plain(found):
    """A response without its ids, and without what the helper adds."""
    members = found.to_dict(mode="json", warnings=False)
    for item in members["output"]:
        del item["id"]
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return members | {"id": None}


def test_streaming_with_a_json_schema(stand):
    with stand.client.responses.stream(model="translated", input="x", text_format=Answer) as stream:
        assert stream.get_final_response().output_parsed == Answer(answer=42, why="because")


def test_a_stream_that_breaks_ends_with_a_failed_response(stand):
    events = list(stand.client.responses.create(model="translated", input="break", stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.code == "server_error"
    assert stand.models.url.removeprefix("http://") not in events[-1].to_json()


NOT_SERVED = [
    ({"store": True}, "store"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"background": True}, "background"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]}, "input[0].content[0]"),
]


@pytest.mark.parametrize("model", ["translated", "native"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("members", "param"), NOT_SERVED, ids=range(len(NOT_SERVED)))
def test_what_is_not_independent_is_refused(stand, model, stream, members, param):
    asked = len(stand.models.calls)
    with pytest.raises(openai.BadRequestError) as refused:
        stand.client.responses.create(**{"model": model, "input": "x", "stream": stream} | members)
    assert (refused.value.param, refused.value.code) == (param, "invalid_request")
    assert len(stand.models.calls) == asked


def test_what_the_translation_would_drop_is_refused(stand):
    with pytest.raises(openai.BadRequestError) as refused:
        stand.client.responses.create(model="translated", input="x", reasoning={"summary": "auto"})
    assert refused.value.param == "reasoning.summary"
    assert stand.client.responses.create(model="native", input="x", reasoning={"summary": "auto"}).status == "completed"


def test_nothing_is_stored(stand):
    found = stand.client.responses.create(model="translated", input="x")
    for call in (stand.client.responses.retrieve, stand.client.responses.delete, stand.client.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            call(found.id)


@pytest.mark.parametrize("store", [None, False, openai.omit])
def test_a_native_server_is_told_not_to_store_and_answers_itself(stand, store):
    raw = stand.client.responses.with_raw_response.create(
        model="native", input="x", store=store, extra_body={"top_k": 5}
    )
    found = raw.parse()
    assert (found.id, found.output_text, found.model, found.store) == ("resp_up", "Native: x", "native", False)
    assert found.to_dict()["kv_transfer_params"] == 1.5
    sent = stand.models.calls[-1]
    assert sent.path == "/v1/responses"
    assert sent.json == {"model": "their-responder", "input": "x", "store": False, "top_k": 5}


def test_a_native_stream_passes(stand):
    with stand.client.responses.stream(model="native", input="x") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        found = stream.get_final_response()
    assert (text, found.output_text, found.model) == ("Native: x", "Native: x", "native")
    assert stand.models.calls[-1].json["store"] is False
