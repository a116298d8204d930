"""Every error code that the core can answer stands in docs/errors.md, and no other does; every code of a plugin stands there or
in the plugin's own page; and each is expected by a test."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Where an error is made, and which unnamed argument is its code. A named one is called `code`, whatever is called.
PLACES = {"Failure": 0, "Problem": 2, "BatchError": 0, "LineProblem": 0}
# The modules that keep codes as constants.
TABLES = ("upstream/outcome.py",)
# Put together, or passed on, where this cannot see them.
UNSEEN = {
    "batch_expired", "batch_cancelled", "batch_failed", "owner_unauthorized",
    "too_many_unfinished_batches", "too_many_unfinished_requests",
}  # fmt: skip
PLUGINS = sorted(path.parent.name for path in (ROOT / "plugins").glob("*/__init__.py"))


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
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "code":
                    yield from values(keyword.value, known)
            place = PLACES.get(getattr(node.func, "id", ""))
            if place is not None and len(node.args) > place:
                yield from values(node.args[place], known)
        elif isinstance(node, ast.FunctionDef):
            # What a helper that makes errors takes for the code where none is named.
            named = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            for argument, default in zip(named, node.args.defaults, strict=True):
                if argument.arg == "code":
                    yield from values(default, known)


def codes_below(folder):
    found = set()
    for path in folder.rglob("*.py"):
        source = path.read_text()
        found |= set(codes_of(source))
        if str(path.relative_to(folder)) in TABLES:
            found |= {value for name, value in constants(ast.parse(source)) if name.isupper()}
    return found


CORE = codes_below(ROOT / "fibatchd") | UNSEEN
OF_PLUGINS = {name: codes_below(ROOT / "plugins" / name) for name in PLUGINS}


def documented():
    return re.findall(r"^\| `(\w+)` \|", (DOCS / "errors.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ("ApiError(400, 'x', code='a')", {"a"}),
        ("A = 'a'\nProblem('x', 'y', A)", {"a"}),
        ("Failure('a' if b else 'c', 'x')", {"a", "c"}),
        ("def refused(why, code='a'): ...", {"a"}),
        ("module.refused('x', code='a')", {"a"}),
        ("other('a')", set()),
    ],
)
def test_codes_are_found(source, codes):
    assert set(codes_of(source)) == codes


def test_every_code_is_documented():
    assert sorted(CORE - set(documented())) == []


def test_nothing_else_is_documented():
    assert sorted(set(documented()) - CORE) == []


def test_each_once():
    assert len(documented()) == len(set(documented()))


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugins_codes_are_documented(plugin):
    page = DOCS / f"{plugin}.md"
    told = set(re.findall(r"`(\w+)`", page.read_text() if page.exists() else "")) | set(documented())
    assert sorted(OF_PLUGINS[plugin] - told) == []


def test_every_code_is_expected_by_a_test():
    folders = [folder for folder in (ROOT / "tests").iterdir() if folder.is_dir() and folder.name != "rules"]
    sources = [path.read_text() for folder in folders for path in folder.rglob("*.py") if ".cache" not in path.parts]
    expected = set(re.findall(r"""["'](\w+)["']""", "\n".join(sources)))
    assert sorted(CORE.union(*OF_PLUGINS.values()) - expected) == []
