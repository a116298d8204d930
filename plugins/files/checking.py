"""Judges the lines of an input file. All that is wrong is listed, with OpenAI's codes; nothing runs unless all is right.
Pure, and meant for worker threads.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from fibatchd.plugin_api import (
    InvalidJson,
    Model,
    NewRequest,
    Problem,
    Target,
    custom_id_of,
    is_null,
    method_problem,
    rawjson,
    url_of,
    usual_item,
)

from .lines import Line

MOST_PROBLEMS = 1000
LONGEST_QUOTE = 200
LONGEST_KEPT = 32

FIELDS = ("custom_id", "method", "url", "body")
MISSING = "missing_required_parameter"

_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


class LineProblem(NamedTuple):
    """One entry of a batch's `errors`. `line` is None for what concerns the file as a whole."""

    code: str
    message: str
    param: str | None
    line: int | None

    def shown(self) -> dict[str, Any]:
        """Return the entry as JSON, free of what a database or an encoder cannot hold."""
        param = None if self.param is None else quotable(self.param)
        return {"code": self.code, "message": quotable(self.message), "param": param, "line": self.line}


class Checker:
    """Checks the lines of one file in order. `model` is what the first good line names, `total` the lines seen, and
    `full` whether so much is wrong that it is no use to go on."""

    def __init__(self, target: Target, *, most_requests: int, longest_line: int) -> None:
        self._target = target
        self._most_requests = most_requests
        self._longest_line = longest_line
        self._seen: set[str | bytes] = set()
        self.problems: list[LineProblem] = []
        self.model: Model | None = None
        self.total = 0
        self.full = False

    def check(self, lines: Iterable[Line]) -> list[NewRequest]:
        """Check the next lines. Returns the requests of those that are good."""
        requests = []
        for line in lines:
            if self.full:
                break
            self.total += 1
            if self.total > self._most_requests:
                message = f"The file has more than {self._most_requests} requests"
                self._add(LineProblem("too_many_requests_in_file", message, None, None))
                self.full = True
                break
            request = self._usual(line.text) or self._looked_at(line)
            if request is not None:
                requests.append(request)
        return requests

    def finish(self) -> list[LineProblem]:
        """The file is over; return what is wrong with it."""
        if not self.total:
            self._add(LineProblem("empty_file", "The file has no requests", None, None))
        return self.problems

    def _add(self, problem: LineProblem) -> None:
        if self.full:
            return
        if len(self.problems) == MOST_PROBLEMS:
            message = f"The file has more than {MOST_PROBLEMS} problems; the others are not listed"
            problem = LineProblem("too_many_errors", message, None, None)
            self.full = True
        self.problems.append(problem)

    def _usual(self, text: bytes | None) -> NewRequest | None:
        """Return the request of a line of the usual form that is right. None for any other: `_looked_at` tells what is wrong
        with it, if anything."""
        item = None if text is None else usual_item(text)
        if item is None or item.method is UNSET or item.url != self._target.endpoint.path:
            return None
        name = _short(item.custom_id)
        model = self._target.judge(body := bytes(item.body))
        if name in self._seen or self.model is None or model is not self.model:
            return None
        self._seen.add(name)
        return NewRequest(item.custom_id, self.model.id, body)

    def _looked_at(self, line: Line) -> NewRequest | None:
        """Return the request of a line, None where something is wrong with it."""
        good = True
        for problem in self._problems(line):
            good = False
            self._add(LineProblem(problem.code, f"Line {line.number}: {problem.message}", problem.param, line.number))
        return _request_of(line, self.model) if good else None

    def _problems(self, line: Line) -> Iterator[Problem]:
        if line.text is None:
            yield Problem(f"longer than {self._longest_line} bytes", None, "line_too_long")
            return
        try:
            members = rawjson.read_object(line.text)
        except InvalidJson as error:
            why = "not UTF-8, but perhaps UTF-16" if b"\0" in line.text else str(error)
            yield Problem(why, None, "invalid_json_line")
            return
        for name in members:
            if name not in FIELDS:
                yield Problem(f"{name}: unknown field", name, "unknown_parameter")
        if (twice := rawjson.duplicate_member(line.text, members)) is not None:
            yield Problem(f"{twice}: occurs twice", twice, "invalid_value")
        given = {name: raw for name, raw in members.items() if not is_null(raw)}
        for name, judge in zip(FIELDS, (self._custom_id, method_problem, self._url, self._body), strict=True):
            raw = given.get(name)
            problem = judge(raw) if raw is not None else Problem(f"{name}: missing", name, MISSING)
            if problem is not None:
                yield problem

    def _custom_id(self, raw: msgspec.Raw) -> Problem | None:
        custom_id = custom_id_of(raw)
        if isinstance(custom_id, Problem):
            return custom_id
        name = _short(custom_id)
        if name in self._seen:
            return Problem("custom_id: used by an earlier line", "custom_id", "duplicate_custom_id")
        self._seen.add(name)
        return None

    def _url(self, raw: msgspec.Raw) -> Problem | None:
        url = url_of(raw)
        path = self._target.endpoint.path
        if isinstance(url, Problem) or url == path:
            return url if isinstance(url, Problem) else None
        return Problem(f"url: must be the endpoint of the batch, {path}", "url", "invalid_url")

    def _body(self, raw: msgspec.Raw) -> Problem | None:
        verdict = self._target.judge(bytes(raw))
        if isinstance(verdict, Problem):
            param = "body" if verdict.param is None else f"body.{verdict.param}"
            return Problem(verdict.message, param, verdict.code)
        if self.model is None:
            self.model = verdict
        if verdict.id != self.model.id:
            message = "model: all lines of a file name the same model, and an earlier one names another"
            return Problem(message, "body.model", "mismatched_model")
        return None


def _request_of(line: Line, model: Model | None) -> NewRequest:
    """Return the request of a line that was found good."""
    assert line.text is not None
    assert model is not None
    members = rawjson.split_object(line.text)
    custom_id = custom_id_of(members["custom_id"])
    assert isinstance(custom_id, str)
    return NewRequest(custom_id, model.id, bytes(members["body"]))


def _short(custom_id: str) -> str | bytes:
    """Return a name to remember: itself, or the digest of a long one, for all names of a file may be as large as the file."""
    if len(custom_id) <= LONGEST_KEPT:
        return custom_id
    return hashlib.blake2b(custom_id.encode(), digest_size=16).digest()


def errors_object(problems: Sequence[LineProblem]) -> str:
    """Return a batch's `errors` as JSON text."""
    return msgspec.json.encode({"object": "list", "data": [problem.shown() for problem in problems]}).decode()


def quotable(text: str) -> str:
    """Cut a text that may repeat the client's own, and replace what is not text in it."""
    text = _NOT_TEXT.sub("\ufffd", text)
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…"
