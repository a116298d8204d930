"""The core names no plugin: not in an import (import-linter sees to that), not in a string, not in an identifier.

Docstrings and comments may speak of them, for examples need names.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(path.parent.name for path in (ROOT / "plugins").glob("*/__init__.py"))
# Words by which the core would know what a plugin serves. Some plugins' names are everyday words ("files"), which may
# stand in a sentence, but never as a string of their own.
TELLTALE = (
    "/v1/files", "/v1/messages/batches", "/v1/embeddings", "/v1/responses", "/v1/batch_webhook", "/console", "/anthropic",
    "fibatchd_plugins.", "msgbatch_", "whsec_", "message_batch", "input_file_id",
)  # fmt: skip
# The batch object's own fields, which every batch has; a log format, and OpenAPI's word for answers, that are called as
# plugins are.
ALLOWED = {
    "input_file_id": {
        "domain/batches.py",
        "store/batches.py",
        "store/admission.py",
        "store/overview.py",
        "web/render.py",
        "web/account/render.py",
    },
    "console": {"config/settings.py", "log.py"},
    "responses": {"web/openapi/completing.py"},
}


def docstrings(tree):
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for statement in body:  # behind an assignment, too, a string is a description
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.value


def strings_and_names(source):
    tree = ast.parse(source)
    described = {id(node) for node in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node.lineno, node.value
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Attribute):
            yield node.lineno, f".{node.attr}"


def offences(source, where):
    for line, text in strings_and_names(source):
        if text in PLUGINS and where not in ALLOWED.get(text, ()):
            yield f"{where}:{line}: {text!r} is a plugin's name"
        for word in TELLTALE:
            if word in text and where not in ALLOWED.get(word, ()):
                yield f"{where}:{line}: {word!r} is a plugin's business"


def test_there_are_plugins():
    assert len(PLUGINS) >= 5


@pytest.mark.parametrize(
    "source", ["x = 'files'", "is_on('webhooks')", "path = '/v1/files/{id}'", "def message_batch_of(): ..."]
)
def test_the_rule_catches(source):
    assert list(offences(source, "example.py"))


def test_core():
    found = []
    for path in sorted((ROOT / "fibatchd").rglob("*.py")):
        found += offences(path.read_text(), str(path.relative_to(ROOT / "fibatchd")))
    assert "\n".join(found) == ""
