"""Streams: chat chunks as events of a response, and native events as they came."""

import itertools
import json

import pytest
from fibatchd_plugins.responses import streaming
from hypothesis import given
from hypothesis import strategies as st
from response_routes import ENDPOINT, NATIVE, call, response, route

from fibatchd.domain.requests import Usage
from fibatchd.inference.endpoint import BrokenReply, Call
from fibatchd.inference.sse import EventSplitter

USAGE = {"prompt_tokens": 30, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 10}}


def chunk(delta=None, finish_reason=None, **more):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish_reason} | more]
    return {"id": "c", "object": "chat.completion.chunk", "created": 17, "model": "up/model", "choices": choices}


def tool(index, **more):
    return {"tool_calls": [{"index": index, **more}]}


def stream_of(*chunks, done=True):
    body = b"".join(b"data: " + json.dumps(item).encode() + b"\n\n" for item in chunks)
    return body + (b"data: [DONE]\n\n" if done else b"")


def edited(chunks, *, members=None, of=None):
    editor = ENDPOINT.editor(
        call(members or {}, stream=True) if of is None else Call("", b""), route(of) if of else route()
    )
    out = b"".join(editor.feed(piece) for piece in chunks) + editor.close()
    return out, editor


def events(out):
    """The events, each with its data decoded; their names and numbers are checked."""
    found = []
    for number, event in enumerate(EventSplitter().feed(out)):
        data = json.loads(EventSplitter.data(event))
        assert EventSplitter.name(event).decode() == data["type"]
        assert data["sequence_number"] == number
        found.append(data)
    return found


def kinds(out):
    return [event["type"].removeprefix("response.") for event in events(out)]


TEXT = stream_of(
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "He"}),
    chunk({"content": "llo"}),
    chunk({}, "stop"),
    chunk() | {"usage": USAGE},
)


def test_the_events_of_a_text():
    out, editor = edited([TEXT])
    assert kinds(out) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    found = events(out)
    assert [event["response"]["status"] for event in (found[0], found[1], found[-1])] == [
        "in_progress",
        "in_progress",
        "completed",
    ]
    assert found[2]["item"] | {"id": ""} == {
        "id": "",
        "type": "message",
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }
    assert [event["delta"] for event in found[4:6]] == ["He", "llo"]
    assert found[6]["text"] == "Hello"
    assert {event.get("item_id") or event["item"]["id"] for event in found[2:9]} == {found[2]["item"]["id"]}
    assert found[8]["item"] == found[-1]["response"]["output"][0]
    assert found[8]["item"]["status"] == "completed"
    assert {event["response"]["id"] for event in (found[0], found[-1])} == {found[0]["response"]["id"]}
    assert found[-1]["response"]["created_at"] == 17
    assert editor.usage == Usage(30, 10, 12, 0)


CALLS = stream_of(
    chunk({"role": "assistant", "content": None, **tool(0, id="c1", type="function", function={"name": "f", "arguments": ""})}),
    chunk(tool(0, function={"arguments": '{"a"'})),
    chunk(tool(1, id="c2", type="function", function={"name": "g", "arguments": "{}"})),
    chunk(tool(0, function={"arguments": ": 1}"})),
    chunk({}, "tool_calls"),
)  # fmt: skip


def test_the_events_of_parallel_calls():
    found = events(edited([CALLS])[0])
    assert [event["type"].removeprefix("response.") for event in found[2:-1]] == [
        "output_item.added", "function_call_arguments.delta", "output_item.added", "function_call_arguments.delta",
        "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "function_call_arguments.done", "output_item.done",
    ]  # fmt: skip
    assert [(event["output_index"], event["delta"]) for event in found if "delta" in event] == [
        (0, '{"a"'),
        (1, "{}"),
        (0, ": 1}"),
    ]
    done = [event for event in found if event["type"].endswith("arguments.done")]
    assert [(event["name"], event["arguments"]) for event in done] == [("f", '{"a": 1}'), ("g", "{}")]
    output = found[-1]["response"]["output"]
    assert [(item["call_id"], item["name"], item["arguments"]) for item in output] == [
        ("c1", "f", '{"a": 1}'),
        ("c2", "g", "{}"),
    ]


def test_calls_without_an_index_are_told_apart_by_their_ids():
    whole = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in ("f", "g")]
    found = events(edited([stream_of(chunk({"tool_calls": whole}))])[0])
    assert [item["name"] for item in found[-1]["response"]["output"]] == ["f", "g"]


def test_a_refusal():
    found = events(edited([stream_of(chunk({"refusal": "I "}), chunk({"refusal": "won't"}), chunk({}, "stop"))])[0])
    assert [event["type"].removeprefix("response.") for event in found[2:-1]] == [
        "output_item.added", "content_part.added", "refusal.delta", "refusal.delta", "refusal.done", "content_part.done", "output_item.done",
    ]  # fmt: skip
    assert found[-1]["response"]["output"][0]["content"] == [{"type": "refusal", "refusal": "I won't"}]


def test_a_text_with_logprobs():
    first, second = {"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}
    parts = [
        chunk({"content": "a"}, logprobs={"content": [first]}),
        chunk({"content": "b"}, logprobs={"content": [second]}),
    ]
    found = events(edited([stream_of(*parts)])[0])
    assert [event["logprobs"] for event in found if event["type"].endswith("text.delta")] == [[first], [second]]
    assert found[-1]["response"]["output"][0]["content"][0]["logprobs"] == [first, second]


@pytest.mark.parametrize(
    ("finish_reason", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_an_incomplete_answer(finish_reason, reason):
    found = events(edited([stream_of(chunk({"content": "a"}), chunk({}, finish_reason))])[0])[-1]
    assert found["type"] == "response.incomplete"
    assert found["response"]["status"] == found["response"]["output"][-1]["status"] == "incomplete"
    assert found["response"]["incomplete_details"] == {"reason": reason}


def test_an_empty_answer():
    assert kinds(edited([stream_of()])[0]) == ["created", "in_progress", "completed"]
    assert kinds(edited([stream_of(chunk({"role": "assistant", "content": ""}, "stop"))])[0]) == [
        "created",
        "in_progress",
        "completed",
    ]


MESSAGES = [
    ({"content": "Hello \ud83d\ude00"}, [{"content": "Hello \ud83d"}, {"content": "\ude00"}]),
    ({"content": "a", "refusal": "b"}, [{"content": "a"}, {"refusal": "b"}]),
    (
        {"content": "a", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"x": "\u2028"}'}}]},
        [
            {"content": "a"},
            tool(0, id="c1", function={"name": "f"}),
            tool(0, function={"arguments": '{"x": "\u2028"}'}),
        ],
    ),
]


@pytest.mark.parametrize(("message", "deltas"), MESSAGES, ids=range(len(MESSAGES)))
def test_a_stream_ends_in_the_response_that_a_whole_answer_gives(message, deltas):
    asked = {"instructions": "i", "temperature": 0.5, "metadata": {"a": "b"}}
    whole = response(
        {"created": 17, "choices": [{"message": message, "finish_reason": "stop"}], "usage": USAGE}, **asked
    )
    chunks = [*map(chunk, deltas), chunk({}, "stop"), chunk() | {"usage": USAGE}]
    streamed = events(edited([stream_of(*chunks)], members=asked)[0])[-1]["response"]
    assert without_ids(streamed) == without_ids(whole)


def without_ids(found):
    return found | {"id": None, "output": [item | {"id": None} for item in found["output"]]}


@given(st.lists(st.integers(0, len(CALLS)), max_size=12), st.sampled_from([TEXT, CALLS]))
def test_cutting_the_stream_anywhere_changes_nothing(cuts, stream):
    ends = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(ends)]
    assert kinds(edited(chunks)[0]) == kinds(edited([stream])[0])


def test_what_a_pretty_printed_request_says_does_not_end_an_event():
    asked = ENDPOINT.call(
        b'{"model":"public","stream":true,"input":"x","metadata":{\n\r\n"a":"b"\n}}', route(), {}, stream=True
    )
    out = ENDPOINT.editor(asked, route()).feed(TEXT)
    assert events(out)[-1]["response"]["metadata"] == {"a": "b"}


def test_comments_go_on():
    editor = ENDPOINT.editor(call({}, stream=True), route())
    assert editor.feed(b": ping\n\n") == b": ping\n\n"


BROKEN = [
    stream_of(chunk({"content": "a"}), done=False),
    b"",
    b"data: {oops\n\ndata: [DONE]\n\n",
    b"data: 7\n\ndata: [DONE]\n\n",
    stream_of({"error": {"message": "x"}}),
    stream_of(chunk({"content": 7})),
    stream_of(chunk({"content": "a"}, logprobs={"content": 7})),
    stream_of(chunk({"content": "a"}, "abort")),
    stream_of(chunk(tool(0, id="c", function={"arguments": "{}"}))),
    stream_of(chunk(tool(0, id="c", function={"name": "f", "arguments": {}}))),
]


@pytest.mark.parametrize("stream", BROKEN, ids=range(len(BROKEN)))
def test_a_stream_that_breaks_is_told(stream):
    with pytest.raises(BrokenReply):
        edited([stream])


def test_no_stream_is_kept_without_end(monkeypatch):
    monkeypatch.setattr(streaming, "LONGEST_ANSWER", 1000)
    edited([TEXT])
    with pytest.raises(BrokenReply, match="longer than any may be"):
        edited([stream_of(*[chunk({"content": "a"})] * 10)])


def test_a_broken_stream_ends_with_a_failed_response():
    editor = ENDPOINT.editor(call({"metadata": {"a": "b"}}, stream=True), route())
    out = editor.feed(stream_of(chunk({"content": "a"}), done=False)) + editor.failed("upstream_error", "it broke")
    last = events(out)[-1]
    assert last["type"] == "response.failed"
    assert (last["response"]["status"], last["response"]["metadata"]) == ("failed", {"a": "b"})
    assert last["response"]["error"] == {"code": "server_error", "message": "it broke"}


NATIVE_STREAM = (
    b": ping\n\n"
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"r", "model":"up/model","n":1.10}}\n\n'
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1,"delta":"up/model"}\r\n\r\n'
    b'event: response.completed\ndata: {"type":"response.completed","sequence_number":2,"response":{"model":"up/model","output":[],'
    b'"usage":{"input_tokens":7,"output_tokens":3}}}\n\ndata: [DONE]\n\n'
)


def test_a_native_stream_passes_byte_for_byte_but_for_the_model():
    out, editor = edited([NATIVE_STREAM], of=NATIVE)
    assert out == NATIVE_STREAM.replace(b'"model":"up/model"', b'"model":"public"')
    assert editor.usage == Usage(7, 0, 3, 0)


@given(st.lists(st.integers(0, len(NATIVE_STREAM)), max_size=12))
def test_cutting_a_native_stream_anywhere_changes_nothing(cuts):
    ends = [0, *sorted(cuts), len(NATIVE_STREAM)]
    assert (
        edited([NATIVE_STREAM[a:b] for a, b in itertools.pairwise(ends)], of=NATIVE)[0]
        == edited([NATIVE_STREAM], of=NATIVE)[0]
    )


def test_native_data_over_several_lines_becomes_one():
    stream = (
        b'event: response.completed\ndata: {"type":"response.completed",\ndata: "response":{"model":"up/model"}}\n\n'
    )
    out, _ = edited([stream], of=NATIVE)
    assert out == b'event: response.completed\ndata: {"type":"response.completed", "response":{"model":"public"}}\n\n'


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        NATIVE_STREAM[: NATIVE_STREAM.index(b"event: response.completed")],
        b"data: {oops\n\n",
        b'data: {"delta":"x"}\n\n',
        b'data: {"type":["response.failed"]}\n\n',
        b'data: {"type":"response.created","sequence_number":"1"}\n\n',
        b'data: {"type":"response.completed","response":null}\n\n',
        b'event: error\ndata: {"type":"error","code":"x","message":"at http://10.0.0.1"}\n\n',
        b'data: {"type":"response.failed","response":{"error":{"message":"at http://10.0.0.1"}}}\n\n',
    ],
    ids=range(9),
)
def test_a_native_stream_that_breaks_is_told(stream):
    with pytest.raises(BrokenReply):
        edited([stream], of=NATIVE)


def test_a_broken_native_stream_ends_with_an_error_event():
    editor = ENDPOINT.editor(Call("", b""), route(NATIVE))
    begun = NATIVE_STREAM[: NATIVE_STREAM.index(b"event: response.completed")]
    editor.feed(begun)
    event = editor.failed("upstream_error", "it broke")
    assert EventSplitter.name(event) == b"error"
    assert json.loads(EventSplitter.data(event)) == {
        "type": "error", "code": "upstream_error", "message": "it broke", "param": None, "sequence_number": 2,
    }  # fmt: skip
