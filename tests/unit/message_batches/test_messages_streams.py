"""Streams, translated and native, cut at every place that a network may cut them."""

import json

import pytest
from fibatchd_plugins.message_batches.native import NativeStream
from fibatchd_plugins.message_batches.streams import ChatToMessages
from fibatchd_plugins.message_batches.to_chat import Asked

from fibatchd.domain.requests import Usage
from fibatchd.inference.endpoint import BrokenReply

USAGE = {"prompt_tokens": 30, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 10}}


def chunk(delta=None, finish=None, **members):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish} | members]
    return {"id": "c", "model": "theirs", "choices": choices}


def sse(*chunks, done=True):
    text = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in chunks)
    return text + b"data: [DONE]\n\n" if done else text


def begun(index, name="f", **more):
    return {"tool_calls": [{"index": index, "id": f"call_{index}", "function": {"name": name, "arguments": ""}} | more]}


def more(index, arguments):
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}


def events(text):
    found = []
    for part in text.decode().split("\n\n")[:-1]:
        name, data = part.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        found.append(value)
    return found


def translated(text, *, size=None, stops=()):
    editor = ChatToMessages("m", Asked(stops))
    size = size or max(1, len(text))
    given = b"".join(editor.feed(text[at : at + size]) for at in range(0, len(text), size)) + editor.close()
    return events(given), editor


def blocks_of(found):
    """Put the blocks together, as a client does, checking the order of events."""
    blocks, is_open = [], False
    for event in found:
        if event["type"] == "content_block_start":
            assert not is_open
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"] | {"json": ""})
            is_open = True
        elif event["type"] == "content_block_delta":
            assert is_open
            assert event["index"] == len(blocks) - 1
            blocks[-1]["text"] = blocks[-1].get("text", "") + event["delta"].get("text", "")
            blocks[-1]["json"] += event["delta"].get("partial_json", "")
        elif event["type"] == "content_block_stop":
            is_open = False
    assert not is_open
    return [
        block["text"] if block["type"] == "text" else (block["id"], block["name"], json.loads(block["json"]))
        for block in blocks
    ]


HELLO = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Hel"}),
    chunk({"content": "lo é"}),
    chunk({}, "stop"),
    chunk() | {"usage": USAGE},
)


def test_a_text_becomes_the_events_of_a_message():
    found, editor = translated(HELLO)
    start = found[0]["message"]
    assert start.pop("id").startswith("msg_")
    assert start == {
        "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0},
    }  # fmt: skip
    assert found[1:] == [
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo é"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {
                "input_tokens": 20,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 10,
                "output_tokens": 12,
            },
        },
        {"type": "message_stop"},
    ]
    assert editor.usage == Usage(30, 10, 12, 0)


@pytest.mark.parametrize("size", range(1, 40))
def test_where_a_stream_is_cut_does_not_matter(size):
    found, _ = translated(HELLO, size=size)
    assert blocks_of(found) == ["Hello é"]
    assert found[-1] == {"type": "message_stop"}


TWO_CALLS = [("call_0", "f", {"a": 1}), ("call_1", "g", {})]


@pytest.mark.parametrize(
    "chunks",
    [
        [begun(0), more(0, '{"a"'), more(0, ": 1}"), begun(1, "g"), more(1, "{}")],
        [
            begun(0, function={"name": "f", "arguments": '{"a": 1}'}),
            begun(1, function={"name": "g", "arguments": "{}"}),
        ],
        # all numbered 0; and the id repeated in each piece
        [
            begun(0, function={"name": "f", "arguments": '{"a": 1}'}),
            begun(0, id="call_1", function={"name": "g", "arguments": "{}"}),
        ],
        [begun(0), begun(0, function={"arguments": '{"a": 1}'}), begun(1, "g"), begun(1, function={"arguments": "{}"})],
    ],
)
def test_tool_calls(chunks):
    text = sse(chunk({"content": "Look"}), *[chunk(delta) for delta in chunks], chunk({}, "tool_calls"))
    found, _ = translated(text, size=7)
    assert blocks_of(found) == ["Look", *TWO_CALLS]
    assert found[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


def test_a_call_without_an_id_gets_one():
    found, _ = translated(sse(chunk(begun(0, id=None)), chunk(more(0, "{}")), chunk({}, "tool_calls")))
    assert found[2]["content_block"]["id"].startswith("toolu_")


@pytest.mark.parametrize(
    ("last", "stop"),
    [
        (chunk({}, "length"), ("max_tokens", None)),
        (chunk({}, "content_filter"), ("refusal", None)),
        (chunk({"refusal": "No."}, "stop"), ("refusal", None)),
        (chunk({}, "stop", stop_reason="END"), ("stop_sequence", "END")),
        (chunk({}, "stop", matched_stop=2), ("end_turn", None)),
    ],
)
def test_stop_reasons_of_a_stream(last, stop):
    found, _ = translated(sse(chunk({"content": "x"}), last), stops=("END",))
    assert tuple(found[-2]["delta"].values()) == stop


def test_a_stream_without_done_but_with_its_end_is_whole():
    found, _ = translated(sse(chunk({"content": "x"}), chunk({}, "stop"), done=False))
    assert found[-1] == {"type": "message_stop"}


def test_an_empty_answer_is_a_message_without_content():
    found, _ = translated(sse(chunk({"role": "assistant"}), chunk({}, "stop")))
    assert [event["type"] for event in found] == ["message_start", "ping", "message_delta", "message_stop"]


def test_signs_of_life_become_pings():
    text = b": waiting\n\n" + sse(chunk({"content": "x"}), done=False) + b": still\n\n" + sse(chunk({}, "stop"))
    found, _ = translated(text)
    assert [event["type"] for event in found].count("ping") == 2


@pytest.mark.parametrize("size", [None, 1, 2, 3])
def test_blank_lines_are_no_signs_of_life(size):
    stream = sse(chunk({"content": "x"}), done=False) + b": still\n\n" + sse(chunk({}, "stop"))
    blank = stream.replace(b"\n\n", b"\r\n" * 9)
    assert translated(blank, size=size)[0][1:] == translated(stream)[0][1:]


def test_lone_surrogates_of_a_stream_stay():
    found, _ = translated(sse(chunk({"content": "\ud800"}), chunk({}, "stop")))
    assert blocks_of(found) == ["\ud800"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        sse(chunk({"content": "x"})),
        sse(chunk({"content": "x"}), done=False),
        b"data: nonsense\n\n",
        b"data: [1]\n\n",
        sse({"error": {"message": "at 10.0.0.1"}}),
        sse(chunk({"content": 1})),
        sse(chunk({"content": "x"}), chunk({}, "abort")),
        sse(chunk(begun(0)), chunk(more(0, '{"a":')), chunk({}, "tool_calls")),
        sse(chunk(begun(0)), chunk(more(0, "[]")), chunk({}, "tool_calls")),
        sse(chunk(more(0, "{}")), chunk({}, "tool_calls")),
        sse(chunk(begun(0)), chunk(more(0, "{}")), chunk(begun(1)), chunk(more(0, "{}")), chunk({}, "tool_calls")),
    ],
)
def test_what_is_no_whole_stream(text):
    with pytest.raises(BrokenReply):
        translated(text)


@pytest.mark.parametrize(
    ("code", "kind"),
    [("upstream_error", "api_error"), ("timeout", "timeout_error"), ("service_unavailable", "overloaded_error")],
)
def test_a_stream_that_breaks_ends_with_an_error_event(code, kind):
    for editor in (ChatToMessages("m", Asked()), NativeStream("m")):
        assert events(editor.failed(code, "why")) == [{"type": "error", "error": {"type": kind, "message": "why"}}]


NATIVE = b"".join(
    b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
    for event in [
        {"type": "message_start", "message": {"id": "1", "model": "theirs", "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "model theirs"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
)  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
def test_a_native_stream_stays_but_for_the_models_name(size):
    editor = NativeStream("m")
    given = b"".join(editor.feed(NATIVE[at : at + size]) for at in range(0, len(NATIVE), size)) + editor.close()
    assert given == NATIVE.replace(b'"model": "theirs"', b'"model": "m"')
    assert editor.usage == Usage(7, 2, 9)


def test_a_native_stream_that_ends_early():
    editor = NativeStream("m")
    editor.feed(NATIVE[:-60])
    with pytest.raises(BrokenReply):
        editor.close()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "secret.host:80"}, "overloaded_error"),
        ({"type": "odd"}, "api_error"),
        ({"type": ["overloaded_error"]}, "api_error"),
        (None, "api_error"),
    ],
)
def test_a_native_stream_that_fails_keeps_the_type_and_no_word_of_the_servers(error, kind):
    editor = NativeStream("m")
    with pytest.raises(BrokenReply):
        editor.feed(b"event: error\ndata: " + json.dumps({"type": "error", "error": error}).encode() + b"\n\n")
    assert events(editor.failed("upstream_error", "why")) == [
        {"type": "error", "error": {"type": kind, "message": "why"}}
    ]
