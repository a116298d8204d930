"""Chat completions as responses: items, status, usage, what is repeated of the request; and native answers."""

import json

import pytest
from openai.types.responses import Response
from response_routes import ENDPOINT, NATIVE, call, chat, response, route

from fibatchd.domain.requests import Usage
from fibatchd.inference.endpoint import BrokenReply, Call

USAGE = {
    "prompt_tokens": 30,
    "completion_tokens": 12,
    "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
LOGPROBS = [{"token": "a", "logprob": -0.10, "bytes": [97], "top_logprobs": []}]
TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}


def completion(message, *, finish_reason="stop", logprobs=None, **more):
    choice = {
        "index": 0,
        "message": {"role": "assistant"} | message,
        "finish_reason": finish_reason,
        "logprobs": logprobs,
    }
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1795000000, "model": "up/model", "choices": [choice], "usage": USAGE} | more  # fmt: skip


def items(found):
    """The output without ids, each of which has its prefix."""
    prefixes = {"message": "msg_", "function_call": "fc_"}
    for item in found["output"]:
        assert item.pop("id").startswith(prefixes[item["type"]])
    return found["output"]


def message(*content, status="completed"):
    return {"type": "message", "status": status, "role": "assistant", "content": list(content)}


def output_text(text, logprobs=()):
    return {"type": "output_text", "annotations": [], "logprobs": list(logprobs), "text": text}


def test_the_whole_of_a_plain_response():
    found = response(completion({"content": "hi"}))
    assert found.pop("id").startswith("resp_")
    assert items(found) == [message(output_text("hi"))]
    del found["output"]
    assert found == {
        "object": "response",
        "created_at": 1795000000,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "model": "public",
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": None,
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": None,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 30,
            "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 10},
            "output_tokens": 12,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 42,
        },
        "user": None,
    }


def test_settings_are_repeated():
    asked = {
        "instructions": "be brief",
        "max_output_tokens": 9,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "reasoning": {"effort": "low"},
        "safety_identifier": "s",
        "service_tier": "default",
        "temperature": 0.5,
        "tool_choice": "required",
        "tools": [FUNCTION],
        "top_logprobs": 2,
        "top_p": 0.9,
        "user": "u",
    }
    found = response(completion({"content": "hi"}), **asked, text={"verbosity": "low"})
    assert {name: found[name] for name in asked} == asked
    assert found["text"] == {"verbosity": "low", "format": {"type": "text"}}
    assert response(completion({"content": "hi"}), text={"format": {"type": "json_object"}})["text"] == {
        "format": {"type": "json_object"}
    }
    assert response(completion({"content": "hi"}, service_tier="priority"))["service_tier"] == "priority"


OUTPUTS = [
    ({"content": "a"}, [message(output_text("a"))]),
    ({"content": "a", "refusal": None, "tool_calls": None, "reasoning_content": "hm"}, [message(output_text("a"))]),
    ({"content": None, "refusal": "no"}, [message({"type": "refusal", "refusal": "no"})]),
    ({"content": "a", "refusal": "no"}, [message(output_text("a"), {"type": "refusal", "refusal": "no"})]),
    ({"content": "", "tool_calls": []}, []),
    ({"content": None}, []),
    ({}, []),
    (
        {"content": "", "tool_calls": [TOOL_CALL]},
        [{"type": "function_call", "status": "completed", "arguments": '{"a": 1}', "call_id": "call_1", "name": "f"}],
    ),
    (
        {"content": "a", "tool_calls": [TOOL_CALL, TOOL_CALL | {"id": "call_2"}]},
        [
            message(output_text("a")),
            {"type": "function_call", "status": "completed", "arguments": '{"a": 1}', "call_id": "call_1", "name": "f"},
            {"type": "function_call", "status": "completed", "arguments": '{"a": 1}', "call_id": "call_2", "name": "f"},
        ],
    ),
]


@pytest.mark.parametrize(("said", "expected"), OUTPUTS, ids=range(len(OUTPUTS)))
def test_output(said, expected):
    assert items(response(completion(said))) == expected


def test_logprobs_keep_their_digits():
    body = json.dumps(completion({"content": "a"}, logprobs={"content": LOGPROBS, "refusal": None})).encode()
    reply = ENDPOINT.reply(body.replace(b"-0.1", b"-0.10000000000000000555"), call({}), route())
    assert b'"logprob": -0.10000000000000000555' in reply.body
    assert items(json.loads(reply.body)) == [message(output_text("a", LOGPROBS))]


def test_a_call_without_an_id_is_given_one():
    found = response(completion({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}))
    assert found["output"][0]["call_id"].startswith("call_")


@pytest.mark.parametrize(
    ("finish_reason", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("eos", "completed", None),
        (None, "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_status(finish_reason, status, reason):
    found = response(completion({"content": "a", "tool_calls": [TOOL_CALL]}, finish_reason=finish_reason))
    assert found["status"] == status
    assert found["incomplete_details"] == (reason and {"reason": reason})
    assert [item["status"] for item in found["output"]] == ["completed", status]


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 1}, (3, 0, 1, 0, 4)),
        ({"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": None}, (3, 0, 1, 0, 4)),
        (None, None),
        ({"total_tokens": 3}, None),
    ],
)
def test_usage(usage, shown):
    body = json.dumps(completion({"content": "a"}, usage=usage)).encode()
    reply = ENDPOINT.reply(body, call({}), route())
    found = json.loads(reply.body)["usage"]
    if shown is None:
        assert found is None
        assert reply.usage is None
    else:
        details = found["input_tokens_details"]["cached_tokens"], found["output_tokens_details"]["reasoning_tokens"]
        assert (found["input_tokens"], details[0], found["output_tokens"], details[1], found["total_tokens"]) == shown
        assert reply.usage == Usage(*shown[:4])


BROKEN = [
    {"error": {"message": "x"}},
    {"choices": []},
    {"choices": None},
    {"choices": {}},
    {"choices": [7]},
    completion({"content": 7}),
    completion({"content": [{"type": "text", "text": "a"}]}),
    completion({"refusal": {}}),
    completion({"tool_calls": {}}),
    completion({"tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}),
    completion({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]}),
    completion({"content": "a"}, logprobs={"content": {}}),
    completion({"content": "a"}, finish_reason="abort"),
    completion({"content": "a"}, finish_reason=7),
]


@pytest.mark.parametrize("answer", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_chat_completion_is_broken(answer):
    with pytest.raises(BrokenReply):
        response(answer)


def test_surrogates_and_pretty_printed_requests_survive():
    asked = ENDPOINT.call(b'{"model":"public","input":"x","metadata":{\n "a": "\\ud800"}}', route(), {})
    body = b'{"choices":[{"message":{"content":"\\ud800 \xc3\xa9"}}]}'
    found = ENDPOINT.reply(body, asked, route()).body
    assert b'"text":"\\ud800 \xc3\xa9"' in found
    assert b'"metadata":{\n "a": "\\ud800"}' in found


def test_the_sdk_reads_it_and_its_output_can_be_sent_back():
    answer = completion({"content": "a", "refusal": "b", "tool_calls": [TOOL_CALL]}, logprobs={"content": LOGPROBS})
    found = response(answer, tools=[FUNCTION])
    read = Response.model_validate(found)
    assert read.output_text == "a"
    again = [item.model_dump(exclude_unset=True, mode="json") for item in read.output]
    sent = chat({"input": [*again, {"type": "function_call_output", "call_id": "call_1", "output": "4"}]})
    assert sent["messages"] == [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
            "tool_calls": [TOOL_CALL],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "4"},
    ]


NATIVE_ANSWER = (
    b'{ "id":"resp_1","model" : "up/model", "output":[{"model":"up/model"}], "n":1.10,"s":"\\ud800",\n'
    b' "usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":2}}}'
)


def test_a_native_answer_comes_back_byte_for_byte_but_for_the_model():
    reply = ENDPOINT.reply(NATIVE_ANSWER, Call("", b""), route(NATIVE))
    assert reply.body == NATIVE_ANSWER.replace(b'"up/model"', b'"public"', 1)
    assert reply.usage == Usage(7, 4, 3, 2)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (b'{"input_tokens":7,"output_tokens":3}', Usage(7, 0, 3, 0)),
        (b'{"input_tokens":7,"output_tokens":3,"input_tokens_details":null}', Usage(7, 0, 3, 0)),
        (b'{"input_tokens":-7,"output_tokens":3}', None),
        (b'{"input_tokens":7}', None),
        (b"null", None),
    ],
)
def test_native_usage(usage, expected):
    assert ENDPOINT.reply(b'{"output":[],"usage":' + usage + b"}", Call("", b""), route(NATIVE)).usage == expected


def test_an_object_without_output_is_no_native_answer():
    with pytest.raises(BrokenReply):
        ENDPOINT.reply(b'{"choices":[]}', Call("", b""), route(NATIVE))
