"""The input file: a JSON object a line, as OpenAI's batch files have it. Checked whole before anything is sent.

Memory does not grow with the file, a digest for each line's `custom_id` aside.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fibatchd import rawjson
from fibatchd.errors import FibatchdError, InvalidJson
from fibatchd.inference.endpoint import Endpoint

LONGEST_LINE = 64 * 2**20
LONGEST_ID = 512
MOST_PROBLEMS = 20
MOST_MODELS = 100  # each has connections of its own
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One request: its place among the requests of the file, from 0, and what it asks."""

    index: int
    custom_id: str
    endpoint: str
    model: str
    body: bytes


@dataclass(slots=True)
class Survey:
    """What a whole input file holds. `problems` are lines to show, at most MOST_PROBLEMS and a word that there are more."""

    total: int = 0
    digest: str = ""
    models: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


class BadLine(FibatchdError):
    """A line is no request that can be run. Raised by `parse`; says what is wrong, and not where."""


def read(path: Path, model: str | None) -> Iterator[Line]:
    """Give the requests of a file that `survey` has passed, in order. `model` takes the place of their own."""
    for index, (_number, text) in enumerate(_texts(path)):
        yield parse(text, index, model)


def survey(path: Path, endpoints: Mapping[str, Endpoint], model: str | None) -> Survey:
    """Read and check a whole file. Raises FibatchdError where it cannot be read."""
    found = Survey()
    digest = hashlib.sha256()
    seen: dict[bytes, int] = {}
    for number, text in _texts(path):
        digest.update(text + b"\n")
        try:
            line = parse(text, found.total, model)
            _check(line, endpoints)
            _check_unique(line.custom_id, number, seen)
            found.models.add(line.model)
        except BadLine as error:
            found.problems.append(f"{path}:{number}: {error}")
            if len(found.problems) > MOST_PROBLEMS:
                found.problems[-1] = f"{path}: and more"
                return found
        found.total += 1
    if len(found.models) > MOST_MODELS:
        found.problems.append(f"{path}: {len(found.models)} models, and {MOST_MODELS} is the most; name one by --model")
    found.digest = digest.hexdigest()
    return found


def parse(text: bytes, index: int, model: str | None) -> Line:
    """Take a line apart. Raises BadLine."""
    try:
        members = rawjson.read_object(text)
    except InvalidJson as error:
        raise BadLine(f"not a JSON object: {error}") from None
    if "method" in members and rawjson.decode(members["method"]) != "POST":
        raise BadLine('method: expected "POST"')
    custom_id = _string(members, "custom_id")
    if not 1 <= len(custom_id) <= LONGEST_ID:
        raise BadLine(f"custom_id: expected 1 to {LONGEST_ID} characters")
    if "body" not in members:
        raise BadLine("body: missing")
    body = bytes(members["body"])
    try:
        fields = rawjson.split_object(body)
    except InvalidJson:
        raise BadLine("body: expected an object") from None
    if (name := rawjson.duplicate_member(body, fields)) is not None:
        raise BadLine(f"body.{name}: given twice")
    own_model = _string(fields, "model", "body.") if model is None else model
    if "model" not in fields:
        body = rawjson.add_member(body, "model", msgspec.json.encode(own_model))
    return Line(index, custom_id, _string(members, "url"), own_model, body)


def _string(members: Mapping[str, msgspec.Raw], name: str, prefix: str = "") -> str:
    if name not in members:
        raise BadLine(f"{prefix}{name}: missing")
    value = rawjson.decode(members[name])
    if not isinstance(value, str) or not rawjson.storable(value):
        raise BadLine(f"{prefix}{name}: expected a string")
    return value


def _check(line: Line, endpoints: Mapping[str, Endpoint]) -> None:
    endpoint = endpoints.get(line.endpoint)
    if endpoint is None:
        raise BadLine(f"url: expected {' or '.join(endpoints)}")
    if (problem := endpoint.check(line.body, batch=True, options={})) is not None:
        raise BadLine(f"body.{problem.message}" if problem.param else f"body: {problem.message}")


def _check_unique(custom_id: str, number: int, seen: dict[bytes, int]) -> None:
    digest = hashlib.blake2b(custom_id.encode(), digest_size=16).digest()
    if (first := seen.setdefault(digest, number)) != number:
        raise BadLine(f"custom_id: is that of line {first} too")


def _texts(path: Path) -> Iterator[tuple[int, bytes]]:
    """Give each line that is not blank with its number, from 1, as an editor counts."""
    try:
        with open(path, "rb") as file:
            number = 0
            while text := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(text) > LONGEST_LINE:
                    raise FibatchdError(f"{path}:{number}: longer than {LONGEST_LINE} bytes")
                text = text.removeprefix(_BOM).strip() if number == 1 else text.strip()
                if text:
                    yield number, text
    except OSError as error:
        raise FibatchdError(f"{path} cannot be read: {error.strerror}") from None
