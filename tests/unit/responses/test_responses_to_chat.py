"""Responses requests as chat completions: what goes over, under which name, and that not a digit changes."""

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from response_routes import ENDPOINT, NATIVE, call, chat, problem, route
from typing_extensions import get_type_hints

from fibatchd.config import CHAT_COMPLETIONS
from fibatchd.inference.endpoint import Refused
from fibatchd.inference.schema import load_schema

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "4"}
FUNCTION = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
CHAT_FUNCTION = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
}
USER = {"role": "user", "content": "x"}
SCHEMA = {"name": "answer", "description": "d", "schema": {"type": "object"}, "strict": True}


def text(said):
    return {"type": "input_text", "text": said}


def said(text, **more):
    return {"type": "output_text", "text": text, "annotations": []} | more


SETTINGS = [
    ({"max_output_tokens": 7}, {"max_tokens": 7}),
    ({"temperature": 0.5, "top_p": 1}, {"temperature": 0.5, "top_p": 1}),
    ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    ({"user": "u", "safety_identifier": "s", "prompt_cache_key": "k"}, {"user": "u", "safety_identifier": "s", "prompt_cache_key": "k"}),
    ({"service_tier": "auto"}, {"service_tier": "auto"}),
    ({"service_tier": "default"}, {"service_tier": "default"}),
    ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}),
    ({"reasoning": {"effort": None, "summary": None}}, {}),
    ({"reasoning": {}}, {}),
    ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
    ({"top_logprobs": 0}, {}),
    ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
    ({"text": {"format": {"type": "text"}}}, {"response_format": {"type": "text"}}),
    ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
    ({"text": {"format": {"type": "json_schema"} | SCHEMA}}, {"response_format": {"type": "json_schema", "json_schema": SCHEMA}}),
    ({"tools": [FUNCTION]}, {"tools": [CHAT_FUNCTION]}),
    ({"tools": [{"type": "function", "name": "f", "parameters": None, "strict": None}]}, {"tools": [{"type": "function", "function": {"name": "f"}}]}),
    ({"tools": [FUNCTION | {"defer_loading": False, "async": False, "allowed_callers": ["direct"]}]}, {"tools": [CHAT_FUNCTION]}),
    ({"tools": []}, {}),
    ({"tools": [], "tool_choice": "auto"}, {}),
    ({"tool_choice": "none"}, {}),
    ({"tool_choice": "required"}, {"tool_choice": "required"}),
    *[({"tools": [FUNCTION], "tool_choice": choice}, {"tools": [CHAT_FUNCTION], "tool_choice": choice}) for choice in ("none", "auto", "required")],
    ({"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}}, {"tools": [CHAT_FUNCTION], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
    ({"metadata": {"a": "b"}}, {}),
    ({"store": False, "background": False, "stream": False, "truncation": "disabled", "include": []}, {}),
    (dict.fromkeys(("store", "background", "stream", "truncation", "include", "prompt", "conversation", "previous_response_id", "tools", "text", "reasoning", "metadata", "instructions", "stream_options", "moderation")), {}),
]  # fmt: skip


@pytest.mark.parametrize(("members", "expected"), SETTINGS, ids=range(len(SETTINGS)))
def test_settings(members, expected):
    assert chat(members) == {"messages": [USER]} | expected


INPUTS = [
    ([USER], [USER]),
    ([USER | {"type": "message"}], [USER]),
    ([{"type": "message", "role": "user", "content": [text("a")], "status": "completed"}], [{"role": "user", "content": "a"}]),
    ([{"role": "user", "content": [text("a"), text("b")]}], [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
    (
        [{"role": "user", "content": [text("a"), {"type": "input_image", "image_url": "data:x", "detail": "low", "file_id": None}]}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}]}],
    ),
    ([{"role": "developer", "content": [text("a")]}, {"role": "system", "content": "b"}], [{"role": "developer", "content": "a"}, {"role": "system", "content": "b"}]),
    ([{"role": "assistant", "content": "a"}], [{"role": "assistant", "content": "a"}]),
    (
        [{"type": "message", "role": "assistant", "id": "msg_1", "status": "incomplete", "content": [said("a", logprobs=[{"token": "a"}])]}],
        [{"role": "assistant", "content": "a"}],
    ),
    (
        [{"role": "assistant", "content": [said("a"), {"type": "refusal", "refusal": "no"}]}],
        [{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}]}],
    ),
    ([USER, CALL, OUTPUT], [USER, {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "4"}]),
    ([CALL | {"id": "fc_1", "status": "completed", "caller": {"type": "direct"}}], [{"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}]),
    (
        [{"role": "assistant", "content": "a"}, CALL, CALL | {"call_id": "c2"}, OUTPUT, OUTPUT | {"call_id": "c2", "output": [text("5")]}],
        [
            {"role": "assistant", "content": "a", "tool_calls": [CHAT_CALL, CHAT_CALL | {"id": "c2"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "4"},
            {"role": "tool", "tool_call_id": "c2", "content": "5"},
        ],
    ),
    (
        [CALL, OUTPUT, CALL | {"call_id": "c2"}, OUTPUT | {"call_id": "c2"}, {"role": "assistant", "content": "a"}, USER],
        [
            {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "4"},
            {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL | {"id": "c2"}]},
            {"role": "tool", "tool_call_id": "c2", "content": "4"},
            {"role": "assistant", "content": "a"},
            USER,
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("items", "messages"), INPUTS, ids=range(len(INPUTS)))
def test_items(items, messages):
    assert chat({"input": items}) == {"messages": messages}
    assert chat({"input": items, "instructions": "i"})["messages"] == [{"role": "system", "content": "i"}, *messages]


@pytest.mark.parametrize("members", [members for members, _ in SETTINGS] + [{"input": items} for items, _ in INPUTS])
def test_what_is_sent_is_a_right_chat_request(members):
    sent = chat(members)
    assert load_schema("chat_completions").problem({"model": "m"} | sent) is None
    assert set(sent) <= set(get_type_hints(CompletionCreateParamsNonStreaming))


NOT_CARRIED = [
    ({"include": ["message.output_text.logprobs"]}, "include"),
    ({"truncation": "auto"}, "truncation"),
    ({"max_tool_calls": 1}, "max_tool_calls"),
    ({"context_management": [{"type": "compaction"}]}, "context_management"),
    ({"moderation": {"model": "m"}}, "moderation"),
    ({"prompt_cache_retention": "24h"}, "prompt_cache_retention"),
    ({"prompt_cache_options": {}}, "prompt_cache_options"),
    ({"background_options": {}}, "background_options"),
    ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
    ({"reasoning": {"generate_summary": "auto"}}, "reasoning.generate_summary"),
    ({"service_tier": "flex"}, "service_tier"),
    ({"top_k": 1}, "top_k"),
    ({"top_k": 1.5, "x" * 65: 1, "top_p": 1}, "top_k"),
    ({"x" * 65: 1}, '"' + "x" * 64 + '"'),
    ({"a\u0000b\ud800": 1}, '"a\\u0000b\\ud800"'),
    ({"text": {"format": {"type": "text", "strict": True}}}, "text.format.strict"),
    ({"text": {"style": "x"}}, "text.style"),
    ({"tools": [FUNCTION, {"type": "custom", "name": "c"}]}, "tools[1].type"),
    ({"tools": [FUNCTION | {"defer_loading": True}]}, "tools[0].defer_loading"),
    ({"tools": [FUNCTION | {"async": True}]}, "tools[0].async"),
    ({"tools": [FUNCTION | {"allowed_callers": ["programmatic"]}]}, "tools[0].allowed_callers"),
    ({"tools": [FUNCTION | {"output_schema": {}}]}, "tools[0].output_schema"),
    ({"tool_choice": {"type": "custom", "name": "c"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}, "tool_choice.type"),
    ({"tool_choice": {"type": "function", "name": "f", "mode": "x"}}, "tool_choice.mode"),
    ({"input": [USER | {"phase": "commentary"}]}, "input[0].phase"),
    ({"input": [USER | {"name": "n"}]}, "input[0].name"),
    ({"input": [{"role": "user", "content": [said("x")]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "assistant", "content": [text("x")]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "system", "content": [{"type": "input_image", "image_url": "u"}]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].image_url"),
    ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [text("x") | {"prompt_cache_breakpoint": {"mode": "explicit"}}]}]}, "input[0].content[0].prompt_cache_breakpoint"),
    ({"input": [{"role": "assistant", "content": [said("x", annotations=[{"type": "file_path"}])]}]}, "input[0].content[0].annotations"),
    ({"input": [{"type": "reasoning", "summary": []}]}, "input[0].type"),
    ({"input": [{"type": "web_search_call", "id": "x"}]}, "input[0].type"),
    ({"input": [CALL | {"namespace": "n"}]}, "input[0].namespace"),
    ({"input": [CALL | {"caller": {"type": "program", "caller_id": "p"}}]}, "input[0].caller"),
    ({"input": [CALL, OUTPUT | {"name": "f"}]}, "input[1].name"),
    ({"input": [CALL, OUTPUT | {"output": [{"type": "input_image", "image_url": "u"}]}]}, "input[1].output[0].type"),
    ({"input": [CALL, {"role": "assistant", "content": "x"}]}, "input[1]"),
]  # fmt: skip


@pytest.mark.parametrize(("members", "param"), NOT_CARRIED, ids=range(len(NOT_CARRIED)))
def test_what_cannot_be_carried_is_refused_by_name(members, param):
    found = problem(members)
    assert (found.param, found.code) == (param, "invalid_request")
    assert found.message.startswith(f"{param}: ")
    with pytest.raises(Refused) as refused:
        call(members)
    assert refused.value.problem == found, "an attempt, which may meet another configuration, says the same"


def test_stream_options():
    assert problem({"stream": True, "stream_options": {"include_obfuscation": False}}, batch=False) is None
    refused = problem({"stream": True, "stream_options": {"include_obfuscation": True}}, batch=False)
    assert refused.param == "stream_options.include_obfuscation"


def test_a_stream_asks_for_usage():
    sent = chat({"stream": True, "stream_options": {}}, stream=True)
    assert sent == {"messages": [USER], "stream": True, "stream_options": {"include_usage": True}}


ODD = (
    b'{"model":"public","temperature":1.0000000000000001e0,"instructions":"\\ud800 \\u00e9",\n"max_output_tokens":12345678901234567890123,'
    b'"tools":[{"type":"function","name":"f","parameters":{ "n": 1.10,"big":98765432109876543210 } }],'
    b'"input":[{"role":"user","content":[{"type":"input_text","text":"\\ud83d\\ude00 \xc3\xa9 \\n"}]}]}'
)


def test_texts_numbers_and_schemas_go_over_as_they_were_written():
    assert ENDPOINT.check(ODD, batch=True, options={}) is None
    sent = ENDPOINT.call(ODD, route(), {})
    assert sent.path == CHAT_COMPLETIONS
    assert sent.body == (
        b'{"model":"up/model","messages":[{"role":"system","content":"\\ud800 \\u00e9"},'
        b'{"role":"user","content":"\\ud83d\\ude00 \xc3\xa9 \\n"}],"temperature":1.0000000000000001e0,'
        b'"max_tokens":12345678901234567890123,"tools":[{"type":"function","function":{"name":"f",'
        b'"parameters":{ "n": 1.10,"big":98765432109876543210 }}}]}'
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b'{ "model":"public", "input":"x", "y":1.10 }',
            b'{ "model":"up/model", "input":"x", "y":1.10 ,"store":false}',
        ),
        (b'{"store" : null,"model":"public","input":"x"}', b'{"store" : false,"model":"up/model","input":"x"}'),
        (b'{"store":false,"model":"public","input":"x"}', b'{"store":false,"model":"up/model","input":"x"}'),
    ],
)
def test_on_a_native_upstream_a_body_stays_as_it_is_but_for_model_and_store(before, after):
    sent = ENDPOINT.call(before, route(NATIVE), {})
    assert (sent.path, sent.body) == ("/v1/responses", after)
