"""Arbitrary bytes as an input file: whatever they are, each line is a request or has its problem, and nothing else comes."""

import json

import pytest
from fibatchd_plugins.files.checking import LONGEST_KEPT, MOST_PROBLEMS, Checker, errors_object, quotable
from fibatchd_plugins.files.lines import LineSplitter
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from fibatchd import config as configuration
from fibatchd.domain.accounts import Account, Key
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.target import Target

CONFIG = configuration.parse("""
[[models]]
id = "m"
aliases = ["em"]
upstreams = [{ url = "echo:" }]
[[models]]
id = "n"
upstreams = [{ url = "echo:" }]
""")
TARGET = Target(
    CONFIG,
    Account("acct_1", "ada", "internal", "active", None, False, 0.0),
    Key("key_1", "acct_1", "hyi-", 0.0, None, None, None),
    ChatCompletions(),
    batch=True,
)
CODES = {
    "invalid_json_line", "missing_required_parameter", "duplicate_custom_id", "invalid_url", "invalid_request",
    "streaming_unsupported", "model_not_found", "mismatched_model", "empty_file", "too_many_requests_in_file",
    "line_too_long", "invalid_type", "invalid_value", "unknown_parameter", "too_many_errors",
}  # fmt: skip


def lines_of(content, longest=10_000):
    splitter = LineSplitter(longest)
    return splitter.feed(content) + splitter.close()


def check(content, most_requests=1000):
    checker = Checker(TARGET, most_requests=most_requests, longest_line=10_000)
    lines = lines_of(content)
    return checker, lines, checker.check(lines), checker.finish()


def item(custom_id="a", **changes):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | changes.pop("body", {})
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body} | changes


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
strange_items = st.fixed_dictionaries(
    {},
    optional={
        "custom_id": st.one_of(st.sampled_from(["a", "b", "\ud800", "\0", ""]), json_values),
        "method": st.one_of(st.just("POST"), json_values),
        "url": st.one_of(st.just("/v1/chat/completions"), json_values),
        "body": st.one_of(
            json_values,
            st.fixed_dictionaries(
                {"messages": st.just([{"role": "user", "content": "hi"}])},
                optional={
                    "model": st.sampled_from(["m", "em", "n", "auto", 1, None]),
                    "stream": json_values,
                    "x\ud800": json_values,
                },
            ),
        ),
        "other": json_values,
    },
)
pieces = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"{", b"}", b"null"]),
    strange_items.map(lambda value: json.dumps(value).encode() + b"\n"),
    st.builds(lambda name: json.dumps(item(name)).encode() + b"\n", st.text(max_size=4)),
)


@settings(max_examples=300)
@given(content=st.lists(pieces, max_size=12).map(b"".join))
def test_no_line_is_lost(content):
    checker, lines, requests, problems = check(content)
    assert checker.total == len(lines)
    shown = json.loads(errors_object(problems))
    errors_object(problems).encode()  # what a database must be able to hold
    assert [entry["line"] for entry in shown["data"] if entry["line"]] == sorted(
        entry["line"] for entry in shown["data"] if entry["line"]
    )
    assert {entry["code"] for entry in shown["data"]} <= CODES
    assert all("\0" not in entry["message"] for entry in shown["data"])
    bad = {problem.line for problem in problems}
    good = [line for line in lines if line.number not in bad]
    if good:
        assert checker.model is not None
    assert len(requests) == len({request.custom_id for request in requests}) == len(good)
    for line, request in zip(good, requests, strict=True):
        assert json.loads(request.body) == json.loads(line.text)["body"]
        assert request.body in line.text


@given(names=st.lists(st.text(min_size=1, max_size=6).filter(lambda text: "\0" not in text), unique=True, min_size=1))
def test_good_files_are_good(names):
    content = b"".join(json.dumps(item(name)).encode() + b"\n" for name in names)
    _, _, requests, problems = check(content)
    assert problems == []
    assert [(request.custom_id, request.model) for request in requests] == [(name, "m") for name in names]


@settings(max_examples=300)
@given(content=st.lists(pieces, max_size=12).map(b"".join))
def test_lines_of_the_usual_form_are_judged_as_all_others_are(content):
    checker, _, requests, problems = check(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fibatchd_plugins.files.checking.usual_item", lambda text: None)
        other, _, same_requests, same_problems = check(content)
    assert problems == same_problems
    assert [astuple(request) for request in requests] == [astuple(request) for request in same_requests]
    assert (checker.total, checker.full, checker.model) == (other.total, other.full, other.model)


@pytest.mark.parametrize("length", [1, LONGEST_KEPT, LONGEST_KEPT + 1, 512])
def test_a_name_of_any_length_is_known_again(length):
    content = b"".join(json.dumps(item("x" * length)).encode() + b"\n" for _ in range(2))
    _, _, requests, problems = check(content)
    assert len(requests) == 1
    assert [(problem.code, problem.line) for problem in problems] == [("duplicate_custom_id", 2)]


def test_a_twin_that_is_written_otherwise_is_a_twin():
    twin = json.dumps(item("a")).replace('"a"', '"\\u0061"').encode()
    _, _, _, problems = check(json.dumps(item("a")).encode() + b"\n" + twin)
    assert [(problem.code, problem.line) for problem in problems] == [("duplicate_custom_id", 2)]


def test_an_unknown_model_counts_before_another_one():
    content = b"\n".join(
        json.dumps(item(name, body={"model": model})).encode()
        for name, model in [("a", "m"), ("b", "x"), ("c", "n"), ("d", "em")]
    )
    _, _, _, problems = check(content)
    assert [(problem.code, problem.line) for problem in problems] == [("model_not_found", 2), ("mismatched_model", 3)]


def test_problems_end_at_a_thousand_in_the_middle_of_a_line():
    content = b"{}\n" * 300  # four problems each
    checker, _, _, problems = check(content)
    assert len(problems) == MOST_PROBLEMS + 1
    assert problems[-1].code == "too_many_errors"
    assert checker.full
    assert checker.total == 251


def test_too_many_requests_end_the_check():
    content = b"".join(json.dumps(item(str(number))).encode() + b"\n" for number in range(5))
    checker, _, _, problems = check(content, most_requests=3)
    assert [problem.code for problem in problems] == ["too_many_requests_in_file"]
    assert checker.full


@given(text=st.text())
def test_what_is_quoted_can_be_stored(text):
    quoted = quotable(text)
    assert len(quoted) <= 201
    assert "\0" not in quoted
    quoted.encode()
