"""Chat completions there and back: nothing changes but the model's name, streams included."""

import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fibatchd.config import CHAT_COMPLETIONS, Model, Price, Upstream
from fibatchd.domain.requests import Usage
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.cost import cost_of
from fibatchd.inference.endpoint import BrokenReply, Call, Route
from fibatchd.inference.sse import EventSplitter

UPSTREAM = Upstream(url="http://x/v1", endpoints=(CHAT_COMPLETIONS,), model="up/model")
ROUTE = Route(Model(id="public", upstreams=(UPSTREAM,)), UPSTREAM)
CHAT = ChatCompletions()
ODD = (
    b'{ "seed": 12345678901234567890123, "model" :"public","temperature": 1.0000000000000001e0,\n'
    b' "messages":[{"role":"user","content":"\\ud800 \\"model\\": \\"public\\""}], "x": null }'
)


def test_a_body_goes_on_byte_for_byte_but_for_the_model():
    assert CHAT.call(ODD, ROUTE, {}).body == ODD.replace(b'"public"', b'"up/model"', 1)


def test_an_answer_comes_back_byte_for_byte_but_for_the_model():
    body = b'{"id":"1", "model": "up/model", "choices": [{"model":"up/model"}],  "n": 1.10 }'
    reply = CHAT.reply(body, Call("", b""), ROUTE)
    assert reply.body == body.replace(b'"up/model"', b'"public"', 1)
    assert reply.usage is None


def test_an_answer_without_a_model_stays_as_it_is():
    assert CHAT.reply(b'{"choices":[]}', Call("", b""), ROUTE).body == b'{"choices":[]}'


@pytest.mark.parametrize("body", [b"{}", b'{"object": "error"}', b'{"error": {"message": "x"}}'])
def test_an_object_without_choices_is_no_answer(body):
    with pytest.raises(BrokenReply):
        CHAT.reply(body, Call("", b""), ROUTE)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3}, Usage(7, 0, 3, 0)),
        (
            {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(7, 4, 3, 0),
        ),
        (
            {"prompt_tokens": 7, "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 2}},
            Usage(7, 0, 3, 2),
        ),
        ({"prompt_tokens": 7, "completion_tokens": None, "prompt_tokens_details": None}, Usage(7, 0, 0, 0)),
        ({"prompt_tokens": -7, "completion_tokens": 3}, None),
        ({"prompt_tokens": "7"}, None),
        ({"completion_tokens": 3}, None),
        (None, None),
        ("many", None),
    ],
)
def test_usage_in_the_shapes_servers_send(usage, expected):
    body = json.dumps({"choices": [], "model": "m", "usage": usage}).encode()
    assert CHAT.reply(body, Call("", b""), ROUTE).usage == expected


def test_a_stream_asks_for_usage():
    call = CHAT.call(b'{"model":"public","stream":true}', ROUTE, {}, stream=True)
    assert json.loads(call.body)["stream_options"] == {"include_usage": True}
    asked = b'{"model":"public","stream":true,"stream_options":{"include_usage":true,"x":1}}'
    assert CHAT.call(asked, ROUTE, {}, stream=True).body == asked.replace(b"public", b"up/model")
    refused = b'{"model":"public","stream":true,"stream_options":{"include_usage":false,"x":1}}'
    call = CHAT.call(refused, ROUTE, {}, stream=True)
    assert json.loads(call.body)["stream_options"] == {"include_usage": True, "x": 1}


STREAM = (
    b': ping\n\ndata: {"model":"up/model","choices":[{"delta":{"content":"a"}}],"usage":null}\n\n'
    b'data: {"model":"up/model","choices":[{"delta":{},"finish_reason":"stop"}]}\r\n\r\n'
    b'data: {"model":"up/model","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
    b"data: [DONE]\n\n"
)


def edited(chunks, *, asked=False):
    editor = CHAT.editor(Call("", b"", memo=asked), ROUTE)
    out = b"".join(editor.feed(chunk) for chunk in chunks)
    return out + editor.close(), editor.usage


def test_a_stream_is_renamed_and_the_usage_chunk_nobody_asked_for_is_kept_back():
    out, usage = edited([STREAM])
    expected = STREAM.replace(b"up/model", b"public")
    start = expected.index(b'data: {"model":"public","choices":[],')
    assert out == expected[:start] + b"data: [DONE]\n\n"
    assert usage == Usage(3, 0, 1, 0)


def test_a_client_that_asked_gets_the_usage_chunk():
    out, usage = edited([STREAM], asked=True)
    assert out == STREAM.replace(b"up/model", b"public")
    assert usage == Usage(3, 0, 1, 0)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
@example([STREAM.index(b"\r\n\r\n") + 3])
def test_cutting_the_stream_anywhere_changes_nothing(cuts):
    ends = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in itertools.pairwise(ends)]
    assert edited(chunks) == edited([STREAM])


def test_each_event_goes_on_with_the_chunk_that_completes_it():
    editor = CHAT.editor(Call("", b"", memo=False), ROUTE)
    first, second = b'data: {"choices":[1]}\n\n', b'data: {"choices":[2]}\n\n'
    assert editor.feed(first[:-1]) == b""
    assert editor.feed(first[-1:] + second[:5]) == first
    assert editor.feed(second[5:]) == second


@pytest.mark.parametrize(
    "stream", [STREAM[: -len(b"data: [DONE]\n\n")], b"data: {oops\n\n", b"", b"data: {\n\ndata: [DONE]\n\n"]
)
def test_a_stream_that_breaks_is_told(stream):
    with pytest.raises(BrokenReply):
        edited([stream])


def test_a_broken_stream_ends_with_an_error_event():
    event = CHAT.editor(Call("", b"", memo=False), ROUTE).failed("upstream_error", "it broke")
    assert json.loads(event.removeprefix(b"data: ")) == {
        "error": {"message": "it broke", "type": "server_error", "param": None, "code": "upstream_error"}
    }


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: a\n\n", b"a"),
        (b"data:a\r\n\r\n", b"a"),
        (b"event: x\ndata: a\ndata: b\n\n", b"a\nb"),
        (b": comment\n\n", None),
        (b"data:  a\n\n", b" a"),
        (b"data\n\n", b""),
    ],
)
def test_event_data(event, data):
    assert EventSplitter.data(event) == data


def test_cost_is_exact():
    price = Price(input=100_000, cached_input=20_000, output=400_000)  # 0.10, 0.02, 0.40 USD per million
    assert cost_of(price, Usage(16, 6, 120, 0)) == 10 * 100_000 + 6 * 20_000 + 120 * 400_000
    assert cost_of(price, Usage(5, 9, 0, 0)) == 5 * 20_000, "no more is cached than came in"
    assert cost_of(None, None) == 0
    assert cost_of(price, None) is None
