"""The input file: what is a request, what is told of a line that is none."""

import json

import pytest

from fibatchd.errors import FibatchdError
from fibatchd.inference.chat import ChatCompletions
from fibatchd.oneshot.reading import MOST_PROBLEMS, read, survey

ENDPOINTS = {"/v1/chat/completions": ChatCompletions()}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def line(**changes):
    whole = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": BODY} | changes
    return json.dumps({name: value for name, value in whole.items() if value is not ...})


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "in.jsonl"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def problems(path, model=None):
    return [problem.partition("in.jsonl:")[2] for problem in survey(path, ENDPOINTS, model).problems]


def test_lines(file):
    first, second = line(custom_id="ä"), line(custom_id="b", method=..., body=BODY | {"model": "n"})
    path = file(b"\xef\xbb\xbf" + first.encode() + b"\r\n\r\n  " + second.encode())
    found = survey(path, ENDPOINTS, None)
    assert (found.total, found.models, found.problems) == (2, {"m", "n"}, [])
    one, two = read(path, None)
    assert (one.index, one.custom_id, one.endpoint, one.model) == (0, "ä", "/v1/chat/completions", "m")
    assert (two.index, two.custom_id, two.model) == (1, "b", "n")
    assert json.loads(one.body) == BODY


def test_a_body_keeps_its_bytes(file):
    body = '{"model": "m",  "messages":[{"role":"user","content":"\\ud800 1e400"}], "seed": 123456789012345678901234567890}'
    path = file('{"custom_id":"a","url":"/v1/chat/completions","body":' + body + "}")
    assert [got.body for got in read(path, None)] == [body.encode()]


def test_model_in_place_of_the_lines_own(file):
    path = file(line() + "\n" + line(custom_id="b", body={"messages": BODY["messages"]}))
    assert survey(path, ENDPOINTS, "x").models == {"x"}
    assert [got.model for got in read(path, "x")] == ["x", "x"]
    assert problems(path) == ["2: body.model: missing"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "1: not a JSON object: "),
        ("[]", "1: not a JSON object: "),
        ('{"custom_id": NaN}', "1: not a JSON object: "),
        (line(method="GET"), '1: method: expected "POST"'),
        (line(custom_id=...), "1: custom_id: missing"),
        (line(custom_id=7), "1: custom_id: expected a string"),
        (line(custom_id=""), "1: custom_id: expected 1 to 512 characters"),
        (line(custom_id="x" * 513), "1: custom_id: expected 1 to 512 characters"),
        (line(custom_id="\0"), "1: custom_id: expected a string"),
        (line(url=...), "1: url: missing"),
        (line(url="/v1/nothing"), "1: url: expected /v1/chat/completions"),
        (line(body=...), "1: body: missing"),
        (line(body=[]), "1: body: expected an object"),
        (line(body=BODY | {"stream": True}), "1: body.stream: "),
        (line(body=BODY | {"temperature": 3}), "1: body.temperature: "),
        (line(body=BODY | {"model": 3}), "1: body.model: expected a string"),
        (line()[:-2] + ', "model": "n"}}', "1: body.model: given twice"),
        ("\n" + line() + "\n\n" + line(), "4: custom_id: is that of line 2 too"),
    ],
)
def test_lines_that_are_none(file, text, told):
    (problem,) = problems(file(text))
    assert problem.startswith(told)


def test_all_problems_are_told_up_to_a_number(file):
    assert len(problems(file("{}\n" * 3))) == 3
    many = survey(file("{}\n" * 100), ENDPOINTS, None).problems
    assert len(many) == MOST_PROBLEMS + 1
    assert many[-1].endswith("and more")


def test_the_digest_is_the_contents(file):
    one = survey(file(line()), ENDPOINTS, None).digest
    assert survey(file(line() + "\r\n"), ENDPOINTS, None).digest == one
    assert survey(file(line(custom_id="b")), ENDPOINTS, None).digest != one


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FibatchdError, match="cannot be read"):
        survey(tmp_path / "nothing", ENDPOINTS, None)
