"""Hostile input: whatever JSON comes, from a client or from a server, is judged or refused, and nothing breaks."""

import json

import pytest
from fibatchd_plugins.message_batches.endpoint import Messages
from fibatchd_plugins.message_batches.versions import FIRST, SECOND
from hypothesis import given
from hypothesis import strategies as st
from routes_to_models import BODY, MESSAGES, model, route

from fibatchd import rawjson
from fibatchd.inference.endpoint import BrokenReply

ENDPOINT = Messages()
RICH = model(images=True, top_k=True, assistant_prefill=True)
NATIVE = model(protocol="anthropic", serves=MESSAGES, url="http://h")
WORDS = [
    "type", "role", "user", "assistant", "content", "text", "image", "source", "base64", "media_type", "data", "tool_use",
    "tool_result", "document", "search_result", "citations", "input", "name", "id", "tools", "input_schema", "tool_choice",
    "caller", "file", "container_upload", "cache_control", "image/png", "url", "choices", "message", "delta", "tool_calls",
    "function", "arguments", "index", "finish_reason", "stop", "usage", "prompt_tokens", "error", "message_start", "\ud800\0",
]  # fmt: skip
TEXTS = st.sampled_from(WORDS) | st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
BLOCKS = st.lists(st.dictionaries(TEXTS, VALUES, max_size=4), max_size=3)
TURNS = st.lists(st.fixed_dictionaries({"role": TEXTS, "content": BLOCKS | VALUES}), max_size=3)
BODIES = st.builds(
    lambda members, turns: BODY | members | turns,
    st.dictionaries(st.sampled_from(["system", "tools", "tool_choice", "thinking", "metadata", "stop_sequences", "top_p"]), VALUES | BLOCKS),
    st.fixed_dictionaries({"messages": TURNS | VALUES}),
)  # fmt: skip


@given(body=BODIES, version=st.sampled_from([FIRST, SECOND]))
def test_bodies(body, version):
    text = json.dumps(body).encode()
    problem = ENDPOINT.check(text, batch=True, options={"version": version})
    if problem is not None:
        assert rawjson.storable(problem.message)
        return
    assert ENDPOINT.route_problem(text, NATIVE) is None
    refused = ENDPOINT.route_problem(text, RICH)
    if refused is None:
        sent = ENDPOINT.call(text, route(RICH), {"version": version})
        assert rawjson.is_object(sent.body)
    else:
        assert rawjson.storable(refused.message)


@pytest.mark.parametrize("wrap", [
    b'{"type":"tool_result","tool_use_id":"t","content":[%b]}',
    b'{"type":"search_result","content":[%b]}',
    b'{"type":"document","source":{"type":"content","content":[%b]}}',
    b'{"type":"tool_use","id":"t","name":"f","input":{"a":%b}}',
])  # fmt: skip
@pytest.mark.parametrize("version", [FIRST, SECOND])
def test_the_deepest_nesting_that_is_json_here(wrap, version):
    levels = (rawjson.MAX_DEPTH - 8) // (3 if b"source" in wrap else 2)
    inner = b'{"type":"text","text":"x"}'
    for _ in range(levels):
        inner = wrap % inner
    text = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[%b]}]}' % inner
    assert rawjson.is_object(text)
    assert ENDPOINT.check(text, batch=True, options={"version": version}) is None
    assert ENDPOINT.route_problem(text, RICH) is not None


CALL = ENDPOINT.call(json.dumps(BODY).encode(), route(RICH), {"version": FIRST})
COMPLETIONS = VALUES | st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({"message": VALUES, "delta": VALUES}))}
)


@given(answer=COMPLETIONS.filter(lambda value: isinstance(value, dict)))
def test_answers(answer):
    text = json.dumps(answer).encode()
    for of in (RICH, NATIVE):
        try:
            reply = ENDPOINT.reply(text, CALL, route(of))
        except BrokenReply:
            continue
        assert rawjson.is_object(reply.body)


@given(
    events=st.lists(
        COMPLETIONS | st.fixed_dictionaries({"type": TEXTS, "message": VALUES, "usage": VALUES, "error": VALUES})
    ),
    size=st.integers(1, 50),
)
def test_streams(events, size):
    text = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    for of in (RICH, NATIVE):
        editor = ENDPOINT.editor(CALL, route(of))
        try:
            for at in range(0, len(text), size):
                editor.feed(text[at : at + size])
            editor.close()
        except BrokenReply:
            assert editor.failed("upstream_error", "why")
