"""Log lines: their event is a fixed text, they carry nothing by a name that would hold a secret, and the documented ones exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "logging.md").read_text()
METHODS = {"debug", "info", "warning", "error", "critical", "exception"}
# Names of what may hold a prompt, an answer, a key, or what a client or a model's server wrote.
SECRET = {
    "body",
    "prompt",
    "answer",
    "content",
    "message",
    "messages",
    "key",
    "secret",
    "headers",
    "custom_id",
    "metadata",
    "text",
}
# Messages that come from another library, which has made them; what they may hold is that library's own.
NOT_FIXED = {"web/guards/context.py", "store/bridge.py"}


def log_calls(source):
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in METHODS
            and isinstance(node.func.value, ast.Name | ast.IfExp)
            and getattr(node.func.value, "id", "log") in ("log", "logger", "_log")
        ) or (isinstance(node, ast.Call) and isinstance(node.func, ast.IfExp)):
            yield node


def sources():
    for folder in ("fibatchd", "plugins"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT / folder)), path.read_text()


CALLS = [(where, call) for where, source in sources() for call in log_calls(source)]
EVENTS = {arg.value for _, call in CALLS for arg in call.args[:1] if isinstance(arg, ast.Constant)}


def offences(where, call):
    if call.args and not isinstance(call.args[0], ast.Constant) and where not in NOT_FIXED:
        yield f"{where}:{call.lineno}: the event is not a fixed text"
    for keyword in call.keywords:
        if keyword.arg in SECRET:
            yield f"{where}:{call.lineno}: {keyword.arg} may be a secret"
        shown = ast.unparse(keyword.value)
        if re.search(r"failure\.message|\.body\b|\.secret\b|api_key", shown):
            yield f"{where}:{call.lineno}: {shown} may be a secret"


def test_calls_are_found():
    assert len(CALLS) > 60
    assert {"request", "ready", "batch ended", "webhook delivered"} <= EVENTS


@pytest.mark.parametrize(
    "source", ["log.info(f'x {y}')", "log.info('x', body=b)", "logger.warning('x', why=outcome.failure.message)"]
)
def test_the_rule_catches(source):
    assert [offence for call in log_calls(source) for offence in offences("x.py", call)]


def test_no_line_holds_a_secret():
    assert [offence for where, call in CALLS for offence in offences(where, call)] == []


def documented():
    for first_cell in re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \| (?:info|warning|error|critical)", DOCS, re.MULTILINE):
        yield from re.findall(r"`([^`]+)`", first_cell)


def test_documented_lines_exist():
    assert len(list(documented())) > 15
    assert set(documented()) - EVENTS == set()


def test_left_out_lines_are_documented_by_their_words():
    assert "`more attempts failed than are shown`" in DOCS
    assert "more attempts failed than are shown" in EVENTS
