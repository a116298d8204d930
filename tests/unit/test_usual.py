"""What is known at a glance, of an item and of a chat body, is right by the checks that take everything apart; and what clients
usually send is known at a glance."""

import json

import pytest
from chat_corpus import USER, cases
from hypothesis import given
from hypothesis import strategies as st
from json_texts import mutations, objects
from msgspec import UNSET

from fibatchd import rawjson
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.items import custom_id_of, method_problem, url_of, usual_item
from fibatchd.inference.usual_chat import is_usual

CHAT = ChatCompletions()
BODY = {"model": "m", "messages": [USER]}
ITEM = {"custom_id": "a", "body": BODY}
LINE = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": BODY}


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def test_a_usual_body_is_right_by_the_schema():
    bodies = [json.dumps(body).encode() for _, _, body in cases() if isinstance(body, dict)]
    usual = [body for body in bodies if is_usual(rawjson.split_object(body))]
    assert len(usual) >= 50
    assert [CHAT.check(body, batch=True, options={}) for body in usual] == [None] * len(usual)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"messages": [{"role": "system", "content": "Be brief."}, USER, {"role": "assistant", "content": ""}, USER]},
        {"messages": [{"role": "developer", "content": '\n"\u2028\u00e9'}, USER]},
        {"temperature": 0, "max_tokens": 100, "top_p": 0.5, "seed": -(10**30), "n": 2, "user": "ada", "stop": ["a"]},
        {
            "temperature": None,
            "max_completion_tokens": 1,
            "presence_penalty": -2,
            "frequency_penalty": 2.0,
            "stop": "x",
        },
        {"reasoning_effort": "low", "max_tokens": None},
    ],
)
@pytest.mark.parametrize("write", [compact, lambda value: json.dumps(value).encode()])
def test_what_most_clients_send_is_usual(more, write):
    assert CHAT.passes_at_sight(rawjson.split_object(write(BODY | more)))


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_a_body_without_what_it_needs_is_not_usual(missing):
    assert not is_usual(rawjson.split_object(compact({name: BODY[name] for name in BODY if name != missing})))


@pytest.mark.parametrize("write", [compact, lambda value: json.dumps(value).encode()])
@pytest.mark.parametrize("value", [ITEM, LINE, LINE | {"custom_id": "x" * 512, "body": 7}, ITEM | {"body": "\u00fc"}])
def test_usual_items(value, write):
    item = usual_item(write(value))
    assert item.custom_id == value["custom_id"]
    assert rawjson.decode(item.body) == value["body"]


UNUSUAL = {
    "no object": b"[]",
    "not JSON": compact(ITEM)[:-1],
    "no custom_id": compact({"body": BODY}),
    "no body": compact({"custom_id": "a"}),
    "an empty custom_id": compact(ITEM | {"custom_id": ""}),
    "a custom_id of wide characters, which have room for a member": compact(ITEM | {"custom_id": "\u00fc" * 10}),
    "a long custom_id": compact(ITEM | {"custom_id": "x" * 513}),
    "a custom_id that cannot be stored": compact(ITEM | {"custom_id": "\0"}),
    "a custom_id that is no text": compact(ITEM | {"custom_id": 1}),
    "an unknown member": compact(ITEM | {"x": None}),
    "another method": compact(ITEM | {"method": "GET"}),
    "method null": compact(ITEM | {"method": None}),
    "url null": compact(ITEM | {"url": None}),
    "url twice": b'{"custom_id":"a","body":{},"url":"","url":""}',
    "url twice, at first a number": b'{"custom_id":"a","body":{},"url":0,"url":""}',
    "body twice": b'{"custom_id":"a","body":{},"body":{}}',
    "method twice": b'{"custom_id":"a","body":{},"method":"POST","method":"POST"}',
    "custom_id twice": b'{"custom_id":"a","body":{},"custom_id":"a"}',
    "not UTF-8 in the body": b'{"custom_id":"a","body":{"x":"\xff"}}',
    "too deep": b'{"custom_id":"a","body":%b%b}' % (b"[" * 600, b"]" * 600),
    "far too deep": b'{"custom_id":"a","body":' + b"[" * 10**5,
    "too large to be looked through twice": compact(ITEM | {"body": "x" * 200_000}),
}


@pytest.mark.parametrize("text", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_unusual_items(text):
    assert usual_item(text) is None


values = st.sampled_from(["a", "POST", "", "\ud800", None, 0, {}, [], BODY])
members = st.sampled_from(["custom_id", "body", "method", "url", "x"])
near_items = st.lists(st.tuples(members, values), max_size=6).map(
    lambda pairs: b"{%b}" % b",".join(compact(name) + b":" + json.dumps(value).encode() for name, value in pairs)
)


@given(
    near_items
    | objects()
    | mutations()
    | st.dictionaries(members, values).map(lambda value: json.dumps(value).encode())
)
def test_a_usual_item_is_right_by_the_other_checks(text):
    item = usual_item(text)
    if item is None:
        return
    found = rawjson.read_object(text)
    assert set(found) <= {"custom_id", "body", "method", "url"}
    assert rawjson.duplicate_member(text, found) is None
    assert custom_id_of(found["custom_id"]) == item.custom_id
    assert method_problem(found.get("method")) is None
    assert url_of(found.get("url")) == (None if item.url is UNSET else item.url)
    assert bytes(found["body"]) == bytes(item.body)
