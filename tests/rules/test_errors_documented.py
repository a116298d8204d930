"""Every error code that the core can answer stands in docs/errors.md, and no other does."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Where an error is made, and which argument is its code: its name, and its place among the unnamed ones.
MAKERS = {"ApiError": ("code", None), "Failure": ("code", 0), "Problem": ("code", 2), "BatchError": ("code", 0)}
# The modules that keep codes as constants.
TABLES = ("upstream/outcome.py",)


def constants(tree):
    """Module-level names of strings."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if isinstance(node.value.value, str):
                yield from ((target.id, node.value.value) for target in targets if isinstance(target, ast.Name))


def values(node, known):
    """The strings that an expression may have, as far as can be seen."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and node.id in known:
        yield known[node.id]
    elif isinstance(node, ast.IfExp):
        yield from values(node.body, known)
        yield from values(node.orelse, known)


def codes_of(source):
    tree = ast.parse(source)
    known = dict(constants(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in MAKERS:
            continue
        name, place = MAKERS[node.func.id]
        for keyword in node.keywords:
            if keyword.arg == name:
                yield from values(keyword.value, known)
        if place is not None and len(node.args) > place:
            yield from values(node.args[place], known)


def all_codes():
    found = set()
    for path in (ROOT / "fibatchd").rglob("*.py"):
        source = path.read_text()
        found |= set(codes_of(source))
        if str(path.relative_to(ROOT / "fibatchd")) in TABLES:
            found |= {value for name, value in constants(ast.parse(source)) if name.isupper()}
    # Put together, or passed on by position, where this cannot see them.
    found |= {"batch_expired", "batch_cancelled", "batch_failed", "owner_unauthorized"}
    found |= {"too_many_unfinished_batches", "too_many_unfinished_requests"}
    return found


def documented():
    text = (ROOT / "docs" / "errors.md").read_text()
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ("ApiError(400, 'x', code='a')", {"a"}),
        ("A = 'a'\nProblem('x', 'y', A)", {"a"}),
        ("Failure('a' if b else 'c', 'x')", {"a", "c"}),
        ("other('a')", set()),
    ],
)
def test_codes_are_found(source, codes):
    assert set(codes_of(source)) == codes


def test_every_code_is_documented():
    assert all_codes() - set(documented()) == set()


def test_nothing_else_is_documented():
    assert set(documented()) - all_codes() == set()


def test_each_once():
    assert len(documented()) == len(set(documented()))
