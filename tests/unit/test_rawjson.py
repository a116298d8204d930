"""Raw JSON: the verdict is RFC 8259's, edits touch the bytes they name and no other, and a line is one line to every reader."""

import json
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_texts import arrays, is_json_object, lossless, mutations, objects
from msgspec import Raw

from fibatchd import rawjson
from fibatchd.errors import InvalidJson

SENTINEL = b'"\\u0073entinel"'


@given(st.binary(max_size=30) | objects() | mutations() | arrays())
def test_the_verdict_is_that_of_the_standard(text):
    assert rawjson.is_object(text) is is_json_object(text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":"\\ud800"}', b'{"a":"\\udc00x"}', b'{"a":"\\ud800\\ud83d\\ude00"}', b'{"a":"\\ud800\\u0041"}', b'{"\\uDFFF":{"\\ud800":1}}', b'{"a":"\\\\ud800"}',
        b'{"a":1e999,"b":-1E-999,"c":-0,"d":0.0e+0}', b'{"a":' + b"9" * 5000 + b"}", b' \t\r\n{ "a" : [ ] } \n', b'{"a":"\x7f\xc2\x85\xe2\x80\xa8"}', b"{}", b'{"":"\\u0000"}', b'{"a":1,"a":2}',
    ],
)  # fmt: skip
def test_whatever_the_standard_allows_is_read(text):
    assert is_json_object(text)
    assert {key: lossless(bytes(raw)) for key, raw in rawjson.read_object(text).items()} == dict(lossless(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not JSON: the text is empty or ends too early"),
        (b'{"a":"x', "not JSON: the text is empty or ends too early"),
        (b"[1]", "expected an object"),
        (b'"x"', "expected an object"),
        (b'\xef\xbb\xbf{"a":1}', "starts with a byte order mark"),
        (b'{"a":"\xff"}', "not valid UTF-8 at byte 6"),
        (b'{"a":{"\xed\xa0\x80":1}}', "not valid UTF-8 at byte 7"),
        (b'{"a":[[NaN]]}', "not JSON: NaN and Infinity are not allowed (line 1, column 8)"),
        (b'{"a":\n -Infinity}', "not JSON: NaN and Infinity are not allowed (line 2, column 3)"),
        (b'{"a":1}\n{"b":2}', "not JSON: trailing characters (line 2, column 1)"),
        ('{"é":"ü",\n "é" 1}'.encode(), "not JSON: expected ':' (line 2, column 6)"),
        (b'{"a":"tab\t"}', "not JSON: invalid character (line 1, column 10)"),
        (b'{"a":"\\ud800","b":01}', "not JSON: invalid number (line 1, column 20)"),
        (b'{"a":' + b"[" * 512 + b"]" * 512 + b"}", "nested more than 512 levels deep"),
        (b'{"a":' + b"[" * 10**5, "nested more than 512 levels deep"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(text, message):
    with pytest.raises(InvalidJson) as caught:
        rawjson.read_object(text)
    assert str(caught.value) == message


@given(st.binary(max_size=30) | objects() | mutations() | arrays())
@example(b"[" * 100_000)
@example(b"NaN")
def test_nothing_but_invalid_json_is_raised(text):
    for read in (rawjson.split_object, lambda text: rawjson.split_array(text, 10), rawjson.decode):
        with suppress(InvalidJson):
            read(text)


@pytest.mark.parametrize("before", range(4))
def test_utf8_is_checked_across_the_ends_of_pieces(before):
    smile = "\U0001f600".encode()
    filler = b"x" * (2**20 - len(b'{"a":"') - before)
    assert rawjson.is_object(b'{"a":"%b%b"}' % (filler, smile))
    for broken in (smile[:3], b"\xff", smile[:before]):
        with pytest.raises(InvalidJson) as caught:
            rawjson.read_object(b'{"a":"%b%b"}' % (filler, broken or b"\x80"))
        assert str(caught.value) == f"not valid UTF-8 at byte {2**20 - before}"


def nested(levels: int, innermost: str = "1") -> bytes:
    return ("[" * levels + innermost + "]" * levels).encode()


@pytest.mark.parametrize(
    ("filler", "levels"),
    [("", 0), ('"[[{",' * 600, 0), ('"\\"[{\\\\",' * 600, 0), ('"","x","\\\\",' * 300, 0), ('[],{"a":[{}]},' * 600, 3)],
)
def test_the_limit_of_depth_is_exact_and_blind_to_brackets_in_strings(filler, levels):
    around = rawjson.MAX_DEPTH - 1 - levels
    assert rawjson.is_object(b'{"a":%b}' % nested(around, filler + "1"))
    assert not rawjson.is_object(b'{"a":%b}' % nested(around + 1, filler + "1"))


@given(objects())
def test_members_are_slices_in_order_and_the_last_of_one_name_counts(text):
    members = rawjson.read_object(text)
    assert [(key, lossless(bytes(raw))) for key, raw in members.items()] == list(dict(lossless(text)).items())
    assert all(bytes(raw) in text for raw in members.values())


@given(arrays())
def test_elements_are_slices_in_order(text):
    elements = [bytes(raw) for raw in rawjson.split_array(Raw(text), 100)]
    assert [lossless(raw) for raw in elements] == lossless(text)
    assert all(raw in text for raw in elements)


def test_too_many_elements_show_without_being_held():
    millions = b"[" + b"[],0," * 600_000 + b"0]"
    assert [bytes(raw) for raw in rawjson.split_array(millions, 3)] == [b"[]", b"0", b"[]", b"0"]
    for broken in (millions + b"x", b'"%b"' % millions):
        with pytest.raises(InvalidJson):
            rawjson.split_array(broken, 3)


@settings(deadline=None)
@given(
    st.sampled_from([b"x", b"\\n", b"\\\\", b'\\"', b"\\u0041", "é".encode(), b"[{", b'\\"]}']),
    st.sampled_from([0, 1, 255, 256, 257, 4096, 4097, 70_000]),
    st.sampled_from([b"", b" " * 70_000, b"\n\t\r"]),
)
def test_long_parts_are_told_apart_in_pieces(part, times, space):
    long = b'"%b"' % (part * times)
    text = b'{"\\ud800":1,%b%b%b:%b[%b,[%b]],"m":%b9}' % (space, long, space, space, long, long, space)
    members = rawjson.split_object(text)
    assert [bytes(raw) for raw in members.values()] == [b"1", b"[%b,[%b]]" % (long, long), b"9"]
    assert rawjson.replace_member(text, "m", b"8") == text[:-2] + b"8}"


@given(objects() | arrays())
def test_decoding_agrees_with_the_standard_library(text):
    assert clamped(rawjson.decode(text)) == clamped(json.loads(text))


def clamped(value: Any) -> str:
    return repr(value).replace("inf", repr(sys.float_info.max))


def test_numbers_beyond_what_python_holds_keep_sign_and_size():
    assert rawjson.decode(b"[1e999, -1e999]") == [sys.float_info.max, -sys.float_info.max]
    large, small = rawjson.decode(b"[" + b"9" * 5000 + b", -" + b"9" * 5000 + b"]")
    assert large > 10**4000
    assert small < -(10**4000)
    assert rawjson.decode(b"[18446744073709551617, -9223372036854775809]") == [2**64 + 1, -(2**63) - 1]


@given(objects())
@example(b'{"a":1,"\\u0061":2}')
@example(b'{"a":1,"b":2,"c":3,"d":4,"e":5,"a":1234}')  # as long as the same members with a space after each , and :
@example(b'{"a": 1, "b": {"a": 1, "a": 2}}')
def test_a_repeated_name_is_found(text):
    names = [name for name, _ in lossless(text)]
    repeated = next((name for i, name in enumerate(names) if name in names[:i]), None)
    assert rawjson.duplicate_member(text, rawjson.read_object(text)) == repeated


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" , ", " : ")])
@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_no_repeated_name_is_seen_where_an_encoder_wrote_none(separators, value):
    for ascii_only in (True, False):
        text = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode()
        assert rawjson.duplicate_member(text, rawjson.read_object(text)) is None


@given(objects(), st.sampled_from(["model", "stream"]))
@example(b'{"model":"model","x":"\\"model\\":1","y":{"model":[]}}', "model")
@example(b'{"messages":{"model":"a"},"\\u006dodel":"a"}', "model")
@example(b'{"x":"model","mod\\u0065l" : 1}', "model")
@example(b'{"model" \n: 1.50 }', "model")
@example(b'{"x":{"model":1}}', "model")
@example(b'{"x":"\\ud800","model":1}', "model")
@example(b'{"model":1,"model":2}', "model")
def test_replacing_a_member_changes_its_value_and_no_other_byte(text, name):
    before = lossless(text)
    if name not in dict(before):
        with pytest.raises(KeyError):
            rawjson.replace_member(text, name, b"0")
        return
    after = rawjson.replace_member(text, name, SENTINEL)
    assert lossless(after) == [(key, "sentinel" if key == name else value) for key, value in before]
    if [key for key, _ in before].count(name) == 1:
        old = bytes(rawjson.read_object(text)[name])
        assert after.replace(SENTINEL, old) == text


@given(objects())
@example(b" { } \n")
@example(b'{"a":{}}')
def test_an_added_member_comes_last_and_changes_no_other_byte(text):
    after = rawjson.add_member(text, "store", b"false")
    assert lossless(after) == [*lossless(text), ("store", False)]
    assert after.replace(b',"store":false', b"").replace(b'"store":false', b"") == text


@given(objects())
@example('{"a":"\u0085\u2028\u2029",\r\n "b":[\n]}'.encode())
def test_a_line_has_the_same_value_and_is_one_line_to_every_reader(text):
    line = rawjson.jsonl_line(text)
    assert lossless(line) == lossless(text)
    assert line.decode().splitlines() == [line.decode()]
    assert line.splitlines() == [line]
    assert rawjson.jsonl_line(line) == line


def test_a_text_that_is_one_line_already_is_returned_as_it_is():
    text = '{"a":"é \\n \\u2028 ▪", "b": 1.50}'.encode()
    assert rawjson.jsonl_line(text) == text


@pytest.mark.parametrize(
    ("text", "good"),
    [("", True), ("q-1 é 😀 \n", True), ("\0", False), ("a\0b", False), ("\ud800", False), ("x\udfff", False)],
)
def test_storable_text_holds_no_nul_and_no_lone_surrogate(text, good):
    assert rawjson.storable(text) is good
