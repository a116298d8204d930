"""What others wrote is shown, not obeyed: a name, metadata, a server's message."""

import json

import click
import msgspec
import pytest
from click.testing import CliRunner

from fibatchd.cli import batch, demo, tell
from fibatchd.cli.tables import show
from fibatchd.errors import FibatchdError
from fibatchd.printable import printable

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\x00\u200b\ue000"


def test_what_can_be_seen_stays():
    for text in ("", "plain", "Grüße, 世界 \U0001f600", "\\x1b"):
        assert printable(text) == text
    assert printable("\x1b[2J\u202e\n") == "\\x1b[2J\\u202e\\n"
    assert printable("a\x1b\nb", lines=True) == "a\\x1b\nb"


@pytest.mark.parametrize("as_json", [True, False])
def test_tables(as_json):
    raw = msgspec.Raw(json.dumps({"a": EVIL}, ensure_ascii=False).encode())
    rows = [{"id": "acct_1", "name": EVIL, "list": [EVIL], "raw": raw}]

    @click.command
    def command():
        show(rows, as_json=as_json, empty="")

    shown = CliRunner().invoke(command).stdout
    assert shown.replace("\n", "").isprintable()
    if as_json:
        assert json.loads(shown) == [{"id": "acct_1", "name": EVIL, "list": [EVIL], "raw": {"a": EVIL}}]


class Evil:
    """A server whose model and whose statuses are made to harm."""

    def call(self, *_, **__):
        result = {"custom_id": "q-1", "status": "completed", "response": None, "error": {"message": EVIL}}
        return {"status": EVIL, "data": [result]}


def test_a_servers_words(monkeypatch):
    monkeypatch.setattr(batch, "Server", lambda *_: Evil())
    shown = CliRunner().invoke(batch.command, ["cancel", "--api-key", " hyi-key\n", "batch_1"]).stdout
    assert shown == printable(EVIL) + "\n"


def test_the_demos_answers(capsys):
    counts, usage = {"completed": 1, "failed": 0}, {"input_tokens": 1, "output_tokens": 1}
    ended = {"id": "batch_1", "status": "completed", "request_counts": counts, "usage": usage, "cost_usd": 0}
    demo.show_results(Evil(), ended)
    shown = capsys.readouterr().out
    assert "q-1" in shown
    assert shown.replace("\n", "").isprintable()


def test_errors(capsys):
    tell(FibatchdError(f"one\n{EVIL}"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
