"""Bounds of JSON texts: exact, blind to what stands in strings, and the same wherever the chunks are cut."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from json_texts import arrays, objects

from fibatchd import jsonbounds, rawjson
from fibatchd.errors import InvalidJson, UnknownMember

CHUNKS = st.integers(1, 12)


def counted(value):
    """(levels, arrays and objects and members, all values but the outermost) of a decoded text"""
    inner = (
        list(value) if isinstance(value, list) else [item for _, item in value] if isinstance(value, tuple) else None
    )
    if inner is None:
        return 0, 0, 0
    below = [counted(item) for item in inner]
    parts = 1 + sum(b[1] for b in below) + (len(inner) if isinstance(value, tuple) else 0)
    return 1 + max((b[0] for b in below), default=0), parts, len(inner) + sum(b[2] for b in below)


def read(text):
    return counted(json.loads(text, object_pairs_hook=tuple))


def limits(monkeypatch, parts, values, chunk):
    monkeypatch.setattr(jsonbounds, "MOST_PARTS", parts)
    monkeypatch.setattr(jsonbounds, "MOST_VALUES", values)
    monkeypatch.setattr(jsonbounds, "_CHUNK", chunk)


@given(objects() | arrays(), CHUNKS)
@example(b'{"a":"[{,:\\\\","b\\"":"\\\\\\"[","c":[[["]"]]]}', 1)
def test_depth_is_exact(text, chunk):
    levels = read(text)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonbounds, "_CHUNK", chunk)
        assert not jsonbounds.is_deeper(text, levels)
        assert jsonbounds.is_deeper(text + b" " * 2 * levels, levels - 1)


@given(objects() | arrays(), CHUNKS)
@example(b'{"a":"[{,:\\\\","b\\"":"\\\\\\"[","c":[[["]"]]]}', 1)
def test_parts_are_counted_exactly(text, chunk):
    parts = read(text)[1]
    with pytest.MonkeyPatch.context() as patch:
        limits(patch, parts, 10**6, chunk)
        assert not jsonbounds.is_too_much(text)
        limits(patch, parts - 1, 10**6, chunk)
        assert jsonbounds.is_too_much(text)


@given(st.lists(st.integers() | st.just(",,[:{"), min_size=2), CHUNKS)
def test_values_of_a_list_are_counted_exactly(values, chunk):
    text = json.dumps(values).encode()
    with pytest.MonkeyPatch.context() as patch:
        limits(patch, 1, len(values) - 1, chunk)
        assert not jsonbounds.is_too_much(text)
        limits(patch, 1, len(values) - 2, chunk)
        assert jsonbounds.is_too_much(text)


TOO_MUCH = {
    "lists": b'{"a":[%b0]}' % (b"[]," * jsonbounds.MOST_PARTS),
    "members": b'{"a":{%b"x":0}}' % b"".join(b'"%x":0,' % n for n in range(jsonbounds.MOST_PARTS)),
    "numbers": b'{"a":[%b0]}' % (b"0," * (jsonbounds.MOST_VALUES + 1)),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_a_client_s_text_that_would_fill_memory_is_refused_before_it_is_decoded(what, monkeypatch):
    text = TOO_MUCH[what]
    assert rawjson.is_object(text), "an upstream's answer may hold any number of floats"
    monkeypatch.setattr(rawjson, "split_object", None)
    for check in (rawjson.read_object, rawjson.check_value):
        with pytest.raises(InvalidJson, match="holds more than"):
            check(text)


def test_the_end_of_an_element_that_is_too_much_is_not_searched_for():
    with pytest.raises(InvalidJson, match="holds more than"):
        rawjson.split_array(b"[1,[%b0]]" % (b"[]," * jsonbounds.MOST_VALUES), 10)


def test_an_end_is_found_behind_any_number_of_strings():
    element = b'{"a":[%b"]"]}' % (b'"[,",' * 20_000)
    many = b"[%b,%b]" % (element, b",".join([b"0"] * 1_000_001))
    assert [bytes(raw) for raw in rawjson.split_array(many, 1)] == [element, b"0"]


def test_much_text_with_commas_and_colons_is_no_much_json():
    text = b'{"a":"%b"}' % (b"12:30, [x]; " * 500_000)
    assert bytes(rawjson.read_object(text)["a"]).count(b",") == 500_000


NAMES = frozenset({"requests", "metadata"})


@pytest.mark.parametrize(
    ("text", "members"),
    [
        (b'{"requests": [1], "metadata":null }', {"requests": b"[1]", "metadata": b"null"}),
        (b'{ "requests":["\\ud800"]}', {"requests": b'["\\ud800"]'}),
        (b'{"requests":{"requests":1}}', {"requests": b'{"requests":1}'}),
        (b'{"re\\u0071uests":1}', {"requests": b"1"}),
        (b"{}", {}),
    ],
)
def test_known_members_are_read(text, members):
    assert {name: bytes(raw) for name, raw in rawjson.read_known(text, NAMES).items()} == members


@pytest.mark.parametrize(
    ("text", "name"),
    [(b'{"requests":1,"fo\\"o":null}', 'fo"o'), (b'{"":1}', ""), ('{"`x` é":1}'.encode(), "`x` é")],
)
def test_an_unknown_member_is_named(text, name):
    with pytest.raises(UnknownMember) as caught:
        rawjson.read_known(text, NAMES)
    assert caught.value.name == name


@pytest.mark.parametrize(
    "text",
    [
        b'{"requests":1,"requests":2}', b'{"requests":1,"\\u0072equests":2}', b'{"metadata":"\\ud800","metadata":null}',
        b"[]", b"", b'{"requests":[}', b'{"requests":1,}', b'{"\xff":1}', b'{"x\\ud800":1}',
    ],
)  # fmt: skip
def test_what_is_no_object_of_known_members(text):
    with pytest.raises(InvalidJson):
        rawjson.read_known(text, NAMES)


def test_other_members_that_are_null_are_passed_over_where_that_is_wanted():
    text = b'{"x":null,"requests":[1],"y\\ud800": null}'
    assert {n: bytes(raw) for n, raw in rawjson.read_known(text, NAMES, null_others=True).items()} == {
        "requests": b"[1]"
    }
    for wrong, error in ((b'{"x":null,"y":0}', UnknownMember), (b'{"x":null,"y":0', InvalidJson)):
        with pytest.raises(error):
            rawjson.read_known(wrong, NAMES, null_others=True)


@pytest.mark.parametrize(
    ("name", "text"), [("a", "a"), ("x" * 101, "x" * 100 + "…"), ("\ud800\0", "\\ud800\\x00"), ("é\n", "é\n")]
)
def test_names_are_shown_cut_and_storable(name, text):
    assert rawjson.shown(name) == text
