"""The translation of answers, and of messages that a server answers itself."""

import json

import pytest
from fibatchd_plugins.message_batches.from_chat import from_chat
from fibatchd_plugins.message_batches.native import native_call, native_reply
from fibatchd_plugins.message_batches.to_chat import Asked
from routes_to_models import MESSAGES, model, route

from fibatchd.domain.requests import Usage
from fibatchd.inference.endpoint import BrokenReply

USAGE = {"prompt_tokens": 30, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 10}}


def completion(message=None, *, usage=USAGE, **choice):
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"} if message is None else message} | choice
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "theirs",
        "choices": [{"finish_reason": "stop"} | choice],
        "usage": usage,
    }


def answered(answer, stops=()):
    return from_chat(json.dumps(answer).encode(), "m", Asked(stops))


def call(arguments="{}", **members):
    return {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}} | members


def test_a_completion_becomes_a_message():
    reply = answered(completion())
    message = json.loads(reply.body)
    assert message.pop("id").startswith("msg_")
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 20,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 10,
            "output_tokens": 12,
        },
    }
    assert reply.usage == Usage(30, 10, 12, 0)


CALLED = {"role": "assistant", "content": None, "tool_calls": [call()]}
REFUSAL = {"role": "assistant", "content": None, "refusal": "No."}


@pytest.mark.parametrize(
    ("answer", "stop"),
    [
        (completion(), ("end_turn", None)),
        (completion(finish_reason="length"), ("max_tokens", None)),
        (completion(finish_reason="content_filter"), ("refusal", None)),
        (completion(REFUSAL), ("refusal", None)),
        (completion(CALLED, finish_reason="tool_calls"), ("tool_use", None)),
        (completion(CALLED, finish_reason="stop"), ("tool_use", None)),
        (completion(CALLED, finish_reason="length"), ("max_tokens", None)),
        (completion(stop_reason="END"), ("stop_sequence", "END")),
        (completion(matched_stop="END"), ("stop_sequence", "END")),
        (completion(stop_reason="not asked for"), ("end_turn", None)),
        (completion(stop_reason=128001), ("end_turn", None)),
        (completion(stop_reason="END", finish_reason="length"), ("max_tokens", None)),
        (completion(finish_reason=None), ("end_turn", None)),
    ],
)
def test_stop_reasons(answer, stop):
    message = json.loads(answered(answer, ("END",)).body)
    assert (message["stop_reason"], message["stop_sequence"]) == stop


def test_tool_calls_become_tool_uses_with_the_arguments_as_written():
    calls = [call('{"a": 1.50, "b": 12345678901234567890123}'), call(id=None)]
    body = answered(completion({"role": "assistant", "content": "Look", "tool_calls": calls})).body
    text, first, second = json.loads(body)["content"]
    assert text == {"type": "text", "text": "Look"}
    assert (first["type"], first["id"], first["name"]) == ("tool_use", "call_1", "f")
    assert b'"input":{"a": 1.50, "b": 12345678901234567890123}' in body
    assert second["id"].startswith("toolu_")


def test_a_refusals_words_are_the_content():
    assert json.loads(answered(completion(REFUSAL)).body)["content"] == [{"type": "text", "text": "No."}]


@pytest.mark.parametrize("usage", [None, {}, "none", {"prompt_tokens": None}])
def test_an_answer_without_usage_is_an_answer(usage):
    reply = answered(completion(usage=usage))
    assert reply.usage is None
    assert json.loads(reply.body)["usage"]["output_tokens"] == 0


def test_lone_surrogates_of_an_answer_stay():
    message = json.loads(answered(completion({"content": "\ud800", "tool_calls": [call('{"a":"\\udfff"}')]})).body)
    assert message["content"][0]["text"] == "\ud800"
    assert message["content"][1]["input"] == {"a": "\udfff"}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"choices": []},
        {"choices": [{}]},
        {"choices": {}},
        completion({"content": 7}),
        completion(finish_reason="abort"),
        completion({"content": None, "tool_calls": [{"id": "x"}]}),
        *[
            completion({"content": None, "tool_calls": [call(text)]})
            for text in ("", "[]", "1", "not json", '{"a":', "NaN")
        ],
        {"error": {"message": "x"}},
    ],
)
def test_what_is_no_answer(answer):
    with pytest.raises(BrokenReply):
        answered(answer)


NATIVE = route(model(protocol="anthropic", serves=MESSAGES, url="http://h"))
ANSWER = (
    b'{ "id":"msg_1", "model":"theirs", "content":[{"type":"text","text":"theirs \\ud800"}], "usage":%b, "n": 1.0e2 }'
)


def test_a_native_body_goes_as_it_stands_with_version_and_beta():
    body = b'{ "model" : "m", "max_tokens":0, "new":1.00, "messages":[{"role":"x"}] }'
    call = native_call("/v1/messages", body, NATIVE, {"version": "2026-10-21", "beta": "a,b"})
    assert call.body == body.replace(b'"m"', b'"theirs"')
    assert call.headers == (("anthropic-version", "2026-10-21"), ("anthropic-beta", "a,b"))
    assert call.path == "/v1/messages"


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (b'{"input_tokens":5,"output_tokens":7}', Usage(5, 0, 7)),
        (
            b'{"input_tokens":5,"cache_read_input_tokens":3,"cache_creation_input_tokens":2,"output_tokens":7}',
            Usage(10, 3, 7),
        ),
        (b'{"input_tokens":5}', None),
        (b"null", None),
        (b'"x"', None),
    ],
)
def test_a_native_answer_stays_but_for_the_models_name(usage, tokens):
    reply = native_reply(ANSWER % usage, NATIVE)
    assert reply.body == (ANSWER % usage).replace(b'"model":"theirs"', b'"model":"m"')
    assert reply.usage == tokens


@pytest.mark.parametrize("body", [b"{}", b'{"model":"theirs"}', b'{"type":"error","error":{}}'])
def test_what_is_no_native_answer(body):
    with pytest.raises(BrokenReply):
        native_reply(body, NATIVE)
