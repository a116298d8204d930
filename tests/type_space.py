"""The parameter space of an API, read from the types that an SDK has for its requests.

Each value sets one field that the least value of its type has not: at every path, in every variant. Strings and numbers in
it are marks that occur nowhere else, so that it can be told whether they reached the upstream.
"""

import collections.abc
import itertools
import json
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import pydantic
import typing_extensions
from typing_extensions import is_typeddict

MARK = re.compile(r"mark\d+x|\b7\d{6}\b")
DEEPEST = 5  # objects inside one another that are walked

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """A body without model, and the path of the field that it sets."""

    path: Path
    body: dict[str, Any]


class Marks:
    """Strings and numbers that are told apart wherever they come out."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def text(self) -> str:
        return f"mark{next(self._numbers)}x"

    def number(self) -> int:
        return 7_000_000 + next(self._numbers)


MARKS = Marks()


def fields_of(typed: type) -> Iterator[tuple[str, Any, bool]]:
    """The members of a TypedDict: name, type, whether it must be there."""
    hints = typing_extensions.get_type_hints(typed, include_extras=True)
    for name, hint in hints.items():
        must = name in typed.__required_keys__
        if get_origin(hint) in (Required, NotRequired):
            must = get_origin(hint) is Required
            (hint,) = get_args(hint)
        yield name, hint, must


def least(hint: Any) -> Any:
    """The least value of a type."""
    return next(iter(values(hint, 0)))[1]


def values(hint: Any, depth: int) -> Iterator[tuple[Path, Any]]:
    """Values of a type that together set each of its fields in each variant; each with the path of what it sets."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in (str, object):
        yield (), MARKS.text()
    elif hint is bool:
        yield from (((), True), ((), False))
    elif hint is int:
        yield (), MARKS.number()
    elif hint is float:
        yield (), 0.5
    elif origin is Literal:
        yield from (((), value) for value in args)
    elif origin in (Union, types.UnionType):
        for arg in args:
            yield from values(arg, depth)
    elif is_typeddict(hint):
        yield from objects(hint, depth)
    elif origin is dict or hint is dict:
        yield (), {MARKS.text(): MARKS.text()}
    elif (
        isinstance(origin, type) and issubclass(origin, collections.abc.Iterable | collections.abc.Sequence)
    ) or is_sequence(origin):
        yield from (((0, *path), [value]) for path, value in values(args[0], depth))
    elif not (hint is type(None) or is_file(hint) or is_answer(hint)):
        raise NotImplementedError(f"a type of the SDK that is not known here: {hint}")


def is_sequence(origin: Any) -> bool:
    return getattr(origin, "__name__", "") == "SequenceNotStr"


def is_file(hint: Any) -> bool:
    """Things that the SDK itself turns into base64."""
    return "IO" in str(hint) or "PathLike" in str(hint)


def is_answer(hint: Any) -> bool:
    """Blocks of answers, which the SDK lets one send back; their fields are those of the blocks of requests."""
    return get_origin(hint) is Annotated or (isinstance(hint, type) and issubclass(hint, pydantic.BaseModel))


def objects(typed: type, depth: int) -> Iterator[tuple[Path, Any]]:
    members = list(fields_of(typed))
    base = {name: least(hint) for name, hint, must in members if must}
    yield (), base
    if depth >= DEEPEST:
        return
    for name, hint, _ in members:
        for path, value in values(hint, depth + 1):
            yield (name, *path), base | {name: value}


def merged(first: Any, second: Any) -> Any:
    """Both in one: objects of one kind become one, lists follow each other where their items are of several kinds; of what
    cannot be together, the first."""
    if of_one_kind(first, second):
        return first | {name: merged(first[name], value) if name in first else value for name, value in second.items()}
    if isinstance(first, list) and isinstance(second, list):
        if len(first) == len(second) == 1 and of_one_kind(first[0], second[0]):
            return [merged(first[0], second[0])]
        return first + second
    return first


def of_one_kind(first: Any, second: Any) -> bool:
    if not isinstance(first, dict) or not isinstance(second, dict):
        return False
    return all(first.get(name) == second.get(name) for name in ("type", "role"))


def leaf(body: Any, path: Path) -> Any:
    for step in path:
        body = body[step]
    return body


def without(body: dict[str, Any], path: Path) -> dict[str, Any]:
    """The body without the member that the path leads to, or that holds the array it leads into."""
    while isinstance(path[-1], int):
        path = path[:-1]
    copy: dict[str, Any] = json.loads(json.dumps(body))
    del leaf(copy, path[:-1])[path[-1]]
    return copy


def marks(value: Any) -> set[str]:
    return set(MARK.findall(value if isinstance(value, str) else json.dumps(value)))


def pairs(cases: list[Case], is_carried: Callable[[Case], bool]) -> Iterator[tuple[Case, Case]]:
    """One field of each kind at each path, with each other one: those that may be carried with all, the rest with samples."""
    carried: list[Case] = []
    refused: list[Case] = []
    for case in {kind_of(case): case for case in cases}.values():
        (carried if is_carried(case) else refused).append(case)
    yield from itertools.combinations(carried, 2)
    yield from itertools.product(carried, refused)
    yield from itertools.islice(itertools.combinations(refused, 2), 0, None, 17)


def kind_of(case: Case) -> tuple[Any, ...]:
    """What tells cases of one path apart: the kinds of the objects on the way."""
    kinds, body = [], case.body
    for step in case.path:
        if isinstance(body, dict):
            kinds.append((body.get("role"), str(body.get("type"))))
        body = body[step]
    return (case.path, *kinds)
