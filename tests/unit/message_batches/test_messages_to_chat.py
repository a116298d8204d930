"""The translation of requests: every row of the table of what is carried, what changes nothing, and what is refused."""

import json

import pytest
from fibatchd_plugins.message_batches.to_chat import to_chat
from routes_to_models import BODY, model

from fibatchd.inference.endpoint import Refused

ALL = model(images=True, top_k=True, assistant_prefill=True, max_stop_sequences=8)
PLAIN = model()

TOOL = {"name": "f", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
TEXT = {"type": "text", "text": "Hi"}
PNG = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
CACHE = {"cache_control": {"type": "ephemeral"}}


def translated(of=PLAIN, **members):
    text, _ = to_chat(json.dumps(BODY | members).encode(), of, "theirs")
    return json.loads(text)


def user(*content):
    return {"messages": [{"role": "user", "content": list(content)}]}


def assistant(*content):
    return {"messages": [{"role": "assistant", "content": list(content)}, {"role": "user", "content": "Go on"}]}


def result(**members):
    return user(RESULT | members)


def tool(**members):
    return {"tools": [TOOL | members]}


def image(**source):
    return user({"type": "image", "source": source})


def test_the_least_request_is_carried_whole():
    assert translated() == {"model": "theirs", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("members", "carried"),
    [
        ({"max_tokens": 1}, {"max_tokens": 1}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 1}, {"temperature": 1}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"stop_sequences": ["a", "b", "c", "d"]}, {"stop": ["a", "b", "c", "d"]}),
        ({"metadata": {"user_id": "u-1"}}, {"user": "u-1"}),
        (tool(), {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}),
        ({"tools": [TOOL], "tool_choice": {"type": "auto"}}, {"tool_choice": "auto"}),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        (
            {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}},
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
    ],
)
def test_what_is_carried(members, carried):
    chat = translated(**members)
    assert {name: chat.get(name) for name in carried} == carried


def test_a_tool_is_carried_with_its_description_and_strictness():
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    assert translated(**tool(description="d", strict=True, type="custom"))["tools"][0]["function"] == function


@pytest.mark.parametrize(
    ("system", "content"),
    [
        ("Be brief", "Be brief"),
        ([TEXT], "Hi"),
        ([TEXT, {"type": "text", "text": "ho"}], [TEXT, {"type": "text", "text": "ho"}]),
    ],
)
def test_the_system_prompt_leads(system, content):
    assert translated(system=system)["messages"][0] == {"role": "system", "content": content}


def test_an_empty_system_prompt_is_none():
    assert [message["role"] for message in translated(system=[])["messages"]] == ["user"]


@pytest.mark.parametrize(
    ("members", "messages"),
    [
        (user(TEXT), [{"role": "user", "content": "Hi"}]),
        (user(TEXT, TEXT), [{"role": "user", "content": [TEXT, TEXT]}]),
        (result(), [{"role": "tool", "tool_call_id": "t1", "content": "ok"}]),
        (result(content=[TEXT]), [{"role": "tool", "tool_call_id": "t1", "content": "Hi"}]),
        (result(content=[TEXT, TEXT]), [{"role": "tool", "tool_call_id": "t1", "content": [TEXT, TEXT]}]),
        (result(content=[]), [{"role": "tool", "tool_call_id": "t1", "content": ""}]),
        (result(content=None, is_error=False), [{"role": "tool", "tool_call_id": "t1", "content": ""}]),
        (
            user(RESULT, RESULT | {"tool_use_id": "t2"}, TEXT),
            [
                {"role": "tool", "tool_call_id": "t1", "content": "ok"},
                {"role": "tool", "tool_call_id": "t2", "content": "ok"},
                {"role": "user", "content": "Hi"},
            ],
        ),
    ],
)
def test_user_turns(members, messages):
    assert translated(**members)["messages"] == messages


CALL = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([TEXT], {"role": "assistant", "content": "Hi"}),
        ([USE], {"role": "assistant", "content": None, "tool_calls": [CALL]}),
        (
            [TEXT, USE, USE | {"id": "t2"}],
            {"role": "assistant", "content": "Hi", "tool_calls": [CALL, CALL | {"id": "t2"}]},
        ),
        ([USE | {"caller": {"type": "direct"}}], {"role": "assistant", "content": None, "tool_calls": [CALL]}),
    ],
)
def test_assistant_turns(content, message):
    assert translated(**assistant(*content))["messages"][0] == message


@pytest.mark.parametrize(
    ("source", "url"),
    [(PNG, "data:image/png;base64,AAAA"), ({"type": "url", "url": "https://e.org/a.png"}, "https://e.org/a.png")],
)
def test_images_are_carried_where_the_model_takes_them(source, url):
    messages = translated(ALL, **image(**source))["messages"]
    assert messages == [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


def test_what_the_route_takes_beyond_the_default():
    chat = translated(ALL, top_k=40, stop_sequences=list("abcdefgh"))
    assert (chat["top_k"], chat["stop"]) == (40, list("abcdefgh"))
    prefilled = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
    assert translated(ALL, messages=prefilled)["messages"] == prefilled


@pytest.mark.parametrize(
    "members",
    [
        {"thinking": {"type": "disabled"}},
        {"service_tier": "auto"},
        {"stream": False},
        {"tools": []},
        {"stop_sequences": []},
        {"metadata": {}},
        {"output_config": {}},
        {"output_config": {"effort": None, "format": None}},
        dict.fromkeys(("system", "temperature", "top_p", "top_k", "tools", "tool_choice", "thinking", "metadata", "stream", "cache_control", "container", "mcp_servers", "service_tier", "speed", "something_new")),
        {"metadata": {"user_id": None}},
        user(TEXT | {"cache_control": None, "citations": None}),
        user(TEXT | {"citations": []}),
    ],
)  # fmt: skip
def test_what_changes_nothing(members):
    assert translated(**members) == translated()


def test_defaults_of_a_tool_change_nothing():
    default = {
        "defer_loading": False,
        "eager_input_streaming": None,
        "allowed_callers": ["direct"],
        "cache_control": None,
    }
    assert translated(**tool(**default)) == translated(**tool())
    choice = {"type": "auto", "disable_parallel_tool_use": False}
    assert translated(tools=[TOOL], tool_choice=choice) == translated(tools=[TOOL], tool_choice={"type": "auto"})


REFUSED = [
    ({"max_tokens": 0}, "max_tokens: must be 1 or more"),
    ({"max_tokens": True}, "max_tokens: expected a whole number"),
    ({"max_tokens": 1.5}, "max_tokens: expected a whole number"),
    ({"max_tokens": None}, "max_tokens: Field required"),
    ({"temperature": 1.01}, "temperature: must be from 0 to 1"),
    ({"temperature": -0.1}, "temperature: "),
    ({"temperature": "hot"}, "temperature: expected a number"),
    ({"top_p": 2}, "top_p: must be from 0 to 1"),
    ({"top_k": 1}, "top_k: this model's route does not take it"),
    ({"stop_sequences": list("abcde")}, "stop_sequences: this model's route takes at most 4"),
    ({"stop_sequences": [1]}, "stop_sequences: expected an array of strings"),
    ({"metadata": {"user_id": "u", "team": "x"}}, "metadata.team: Extra inputs are not permitted"),
    ({"metadata": {"user_id": 7}}, "metadata.user_id: expected a string"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking: "),
    ({"thinking": {"type": "adaptive"}}, "thinking: "),
    ({"thinking": {"type": "disabled", "display": "omitted"}}, "thinking.display: "),
    ({"output_config": {"effort": "low"}}, "output_config.effort: "),
    ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format: "),
    ({"output_config": {"new": 1}}, "output_config.new: Extra inputs are not permitted"),
    (CACHE, "cache_control: "),
    ({"container": "c"}, "container: "),
    ({"mcp_servers": []}, "mcp_servers: "),
    ({"context_management": {}}, "context_management: "),
    ({"speed": "standard"}, "speed: "),
    ({"inference_geo": "eu"}, "inference_geo: "),
    ({"service_tier": "standard_only"}, "service_tier: "),
    ({"something_new": 1}, "something_new: Extra inputs are not permitted"),
    ({"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]}, "messages: the last"),
    ({"messages": [{"role": "system", "content": "A"}]}, "messages.0.role: expected user or assistant"),
    ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
    ({"messages": [{"role": "user", "content": []}]}, "messages.0.content: must not be empty"),
    ({"messages": [{"role": "user", "content": "A", "name": "x"}]}, "messages.0.name: Extra inputs"),
    ({"messages": ["A"]}, "messages.0: expected an object"),
    ({"system": [TEXT | CACHE]}, "system.0.cache_control: "),
    ({"system": [{"type": "image", "source": PNG}]}, "system.0.type: "),
    ({"system": 1}, "system: expected an array"),
    (user(TEXT | CACHE), "messages.0.content.0.cache_control: "),
    (user(TEXT | {"citations": [{"type": "char_location"}]}), "messages.0.content.0.citations: "),
    (user(TEXT | {"new": 1}), "messages.0.content.0.new: Extra inputs"),
    (user({"type": "image", "source": PNG}), "messages.0.content.0: this model does not take images"),
    (user(TEXT, RESULT), "messages.0.content.1: a tool_result must come before"),
    (result(is_error=True), "messages.0.content.0.is_error: "),
    (result(content=[{"type": "image", "source": PNG}]), "messages.0.content.0.content.0.type: "),
    (result(content=[TEXT | CACHE]), "messages.0.content.0.content.0.cache_control: "),
    (result(**CACHE), "messages.0.content.0.cache_control: "),
    (result(toolset_name="t"), "messages.0.content.0.toolset_name: Extra inputs"),
    (user(USE), "messages.0.content.0.type: "),
    (assistant(USE, TEXT), "messages.0.content.1: text after a tool_use"),
    (assistant(RESULT), "messages.0.content.0.type: "),
    (assistant({"type": "image", "source": PNG}), "messages.0.content.0.type: "),
    (assistant(USE | {"caller": {"type": "code_execution_20250825", "tool_id": "s"}}), "messages.0.content.0.caller: "),
    (assistant(USE | {"input": "x"}), "messages.0.content.0.input: expected an object"),
    (assistant(USE | CACHE), "messages.0.content.0.cache_control: "),
    (tool(type="bash_20250124"), "tools.0.type: "),
    (tool(input_examples=[{}]), "tools.0.input_examples: "),
    (tool(**CACHE), "tools.0.cache_control: "),
    (tool(defer_loading=True), "tools.0.defer_loading: "),
    (tool(eager_input_streaming=True), "tools.0.eager_input_streaming: "),
    (tool(allowed_callers=["direct", "code_execution_20250825"]), "tools.0.allowed_callers: "),
    (tool(allowed_callers=[]), "tools.0.allowed_callers: "),
    (tool(new=1), "tools.0.new: Extra inputs"),
    ({"tools": [{"name": "f"}]}, "tools.0.input_schema: Field required"),
    ({"tool_choice": {"type": "some"}}, "tool_choice.type: "),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.name: Field required"),
    ({"tool_choice": {"type": "none", "disable_parallel_tool_use": True}}, "tool_choice.disable_parallel_tool_use: "),
    *[
        (assistant({"type": kind}), "messages.0.content.0.type: ")
        for kind in ("document", "search_result", "thinking", "redacted_thinking", "container_upload", "server_tool_use",
                     "web_search_tool_result", "mcp_tool_use", "something_new")
    ],
    *[
        (user({"type": kind}), "messages.0.content.0.type: ")
        for kind in ("document", "search_result", "thinking", "container_upload", "something_new")
    ],
]  # fmt: skip


@pytest.mark.parametrize(("members", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_refused_is_named(members, message):
    with pytest.raises(Refused) as refused:
        translated(**members)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"type": "file", "file_id": "f"}, "messages.0.content.0.source.type: "),
        (PNG | {"media_type": "image/tiff"}, "messages.0.content.0.source.media_type: expected one of"),
        (PNG | {"new": 1}, "messages.0.content.0.source.new: Extra inputs"),
    ],
)
def test_image_sources_that_are_refused(source, message):
    with pytest.raises(Refused, match=message):
        translated(ALL, **image(**source))


def test_transformations_are_refused():
    block = {"type": "image", "source": PNG, "transformations": {"oversized_image": "error"}}
    with pytest.raises(Refused, match="transformations"):
        translated(ALL, **user(block))


def test_numbers_schemas_and_escapes_go_over_as_they_are_written():
    body = (
        rb'{"model":"m","max_tokens":123456789012345678901234567890,"temperature":0.10000000000000000001,'
        rb'"tools":[{"name":"f","input_schema":{ "b":1.0e2, "a":null, "a":"\ud83d" }}],'
        rb'"messages":[{"role":"user","content":"\ud800 \u00e9"},'
        rb'{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"n": 1e400, "z":"\ud800"}}]},'
        rb'{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}'
    )
    chat, _ = to_chat(body, PLAIN, "theirs")
    for written in (
        rb'"max_tokens":123456789012345678901234567890',
        rb'"temperature":0.10000000000000000001',
        rb'"parameters":{ "b":1.0e2, "a":null, "a":"\ud83d" }',
        rb'"content":"\ud800 \u00e9"',
        rb'"arguments":"{\"n\": 1e400, \"z\":\"\\ud800\"}"',
    ):
        assert written in chat


def test_a_stream_asks_for_its_usage():
    chat, _ = to_chat(json.dumps(BODY | {"stream": True}).encode(), PLAIN, "theirs", stream=True)
    asked = json.loads(chat)
    assert (asked["stream"], asked["stream_options"]) == (True, {"include_usage": True})


def test_names_of_a_client_are_bounded_and_storable_in_messages():
    with pytest.raises(Refused) as refused:
        to_chat(
            b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"\\ud800\\u0000%b":1}'
            % (b"x" * 500),
            PLAIN,
            "t",
        )
    message = str(refused.value)
    assert len(message) < 200
    assert "\0" not in message.encode().decode()
