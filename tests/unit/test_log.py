"""The log: one form for all who speak, the journal's priorities, and nothing that quotes what was worked on."""

import json
import logging
import os
import socket
import sys
import threading
import types
import warnings

import pytest
import structlog

from fibatchd import log, systemd
from fibatchd.config import Log
from fibatchd.errors import StoreUnavailable

SECRET = "the prompt"
KEY = "hyi-" + "k" * 43


class Stream:
    """A stream that keeps what is written."""

    def __init__(self, *, terminal=False, broken=False):
        self.text = ""
        self._terminal = terminal
        self._broken = broken

    def write(self, text):
        if self._broken:
            raise BrokenPipeError
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return self._terminal

    @property
    def lines(self):
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture(autouse=True)
def no_journal(monkeypatch, tmp_path):
    """This machine's journal, if it has one, is not to hear of it."""
    monkeypatch.setattr(systemd, "JOURNAL", str(tmp_path / "none"))


@pytest.fixture(autouse=True)
def undone():
    """Logging is the process's: leave it as it was."""
    root = logging.getLogger()
    before = (
        root.handlers[:],
        root.level,
        sys.excepthook,
        threading.excepthook,
        sys.unraisablehook,
        warnings.showwarning,
    )
    yield
    logging.captureWarnings(False)
    structlog.reset_defaults()
    root.handlers[:], level, sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning = before
    root.setLevel(level)


@pytest.fixture
def configured():
    def configured(stream=None, **settings):
        stream = stream or Stream()
        log.configure(Log(**settings), stream)
        return stream

    return configured


def raised():
    """An exception whose text, cause and variables hold the secret, and whose group has one that may speak."""
    secret = SECRET
    try:
        try:
            raise KeyError(secret)
        except KeyError as error:
            raise ExceptionGroup(secret, [ValueError(secret), StoreUnavailable("the disk is gone")]) from error
    except ExceptionGroup as group:
        return group


def tell(how="structlog"):
    try:
        raise raised()
    except ExceptionGroup:
        if how == "structlog":
            structlog.get_logger("x").exception("it broke", thing=object())
        else:
            logging.getLogger("asyncio").exception("it broke")


def test_a_line(configured):
    out = configured()
    structlog.get_logger("x").info("hello", n=1)
    (line,) = out.lines
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "hello", "level": "info", "n": 1}


def test_levels(configured):
    out = configured(level="warning")
    logger = structlog.get_logger("x")
    logger.info("no")
    logger.warning("yes")
    logging.getLogger("hypercorn").info("no")
    logging.getLogger("hypercorn").warning("yes, %s", "too")
    assert [line["event"] for line in out.lines] == ["yes", "yes, too"]
    assert out.lines[1]["logger"] == "hypercorn"


def test_bound_ids_are_on_all_lines(configured):
    out = configured()
    with structlog.contextvars.bound_contextvars(request_id="req_1"):
        structlog.get_logger("x").info("ours")
        logging.getLogger("asyncio").warning("theirs")
    assert [line["request_id"] for line in out.lines] == ["req_1", "req_1"]


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("how", ["structlog", "standard library"])
def test_exceptions_do_not_quote(configured, form, how):
    out = configured(format=form)
    tell(how)
    assert SECRET not in out.text
    for told in (
        "KeyError",
        "ValueError",
        "fibatchd.errors.StoreUnavailable: the disk is gone",
        "which led to",
        "in raised",
    ):
        assert told in out.text


def test_what_has_no_form_in_json_is_not_shown(configured):
    out = configured()
    tell()
    assert out.lines[0]["thing"] == "<object>"


def test_exceptions_that_speak_of_the_program(configured):
    out = configured()
    for error in (
        FileNotFoundError(2, "No such file", "/etc/x"),
        TypeError("f() takes no arguments"),
        RuntimeError(SECRET),
    ):
        try:
            raise error
        except Exception:
            structlog.get_logger("x").exception("it broke")
    told = [line["exception"].splitlines()[-1] for line in out.lines]
    assert told == [
        "FileNotFoundError: [Errno 2] No such file: '/etc/x'",
        "TypeError: f() takes no arguments",
        "RuntimeError",
    ]


def test_an_exception_that_caused_itself(configured):
    out = configured()
    first, second = ValueError(), OSError("second")
    first.__cause__, second.__cause__ = second, first
    try:
        raise first
    except ValueError:
        structlog.get_logger("x").exception("it broke")
    assert "OSError: second" in out.lines[0]["exception"]


def test_keys_are_taken_out(configured):
    out = configured()
    structlog.get_logger("x").info("request", path=f"/v1/{KEY}/x", problems=2)
    logging.getLogger("y").warning("saw %s", KEY)
    assert KEY not in out.text
    assert out.lines[0]["path"] == "/v1/hyi-…/x"


def test_what_nobody_caught(configured):
    out = configured()
    error = ValueError(SECRET)
    sys.excepthook(ValueError, error, None)
    threading.excepthook(types.SimpleNamespace(exc_type=ValueError, exc_value=error, exc_traceback=None, thread=None))
    sys.unraisablehook(
        types.SimpleNamespace(exc_type=ValueError, exc_value=error, exc_traceback=None, err_msg=None, object=None)
    )
    assert [line["level"] for line in out.lines] == ["critical"] * 3
    assert [line["exception"] for line in out.lines] == ["ValueError"] * 3


def test_warnings_are_lines(configured):
    out = configured()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert out.lines[0]["logger"] == "py.warnings"


@pytest.mark.parametrize(("form", "terminal", "expected"), [
    ("auto", True, "console"), ("auto", False, "json"), ("json", True, "json"), ("console", False, "console"),
])  # fmt: skip
def test_format(configured, form, terminal, expected):
    out = configured(Stream(terminal=terminal), format=form)
    structlog.get_logger("x").info("hello")
    assert (expected == "json") == out.text.startswith("{")
    assert ("\x1b[" in out.text) == (expected == "console" and terminal), "colours are for terminals"


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_terminal_is_told_nothing_that_it_would_obey(configured, form):
    out = configured(Stream(terminal=False), format=form)
    evil = "/\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\nforged line"
    structlog.get_logger("x").info("request", path=evil, problems=[evil])
    logging.getLogger("y").warning(evil)
    assert len(out.text.splitlines()) == 2
    assert out.text.replace("\n", "").isprintable()


def test_a_reload_changes_the_level_of_all(configured):
    configured(level="error")
    logger = structlog.get_logger("x")
    out = configured(level="debug")
    logger.debug("hello")
    assert out.lines[0]["event"] == "hello"


def test_a_broken_stream_breaks_nothing_else(configured):
    configured(Stream(broken=True))
    structlog.get_logger("x").info("hello")
    logging.getLogger("y").warning("hello")


def test_a_record_that_cannot_be_formatted(configured):
    out = configured()
    logging.getLogger("y").warning("%d", SECRET)
    assert SECRET not in out.text
    assert out.lines[0]["logger"] == "y"


@pytest.mark.parametrize("form", ["json", "console"])
def test_in_the_journal_every_line_has_its_priority(configured, monkeypatch, tmp_path, form):
    with (tmp_path / "journal").open("w+") as stream:
        found = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        configured(stream, level="debug", format=form)
        logger = structlog.get_logger("x")
        for method in ("debug", "info", "warning", "error", "critical"):
            getattr(logger, method)("hello")
        tell()
        logging.getLogger("y").warning("hello")
        stream.seek(0)
        lines = stream.read().splitlines()
    assert [line[:3] for line in lines[:5]] == ["<7>", "<6>", "<4>", "<3>", "<2>"]
    assert {line[:3] for line in lines[5:-1]} == {"<3>"}, "all lines of a traceback"
    assert lines[-1].startswith("<4>")


def test_a_line_written_while_another_is_made_does_not_take_its_priority(configured, monkeypatch, tmp_path):
    class Telling:
        def __repr__(self):
            structlog.get_logger("x").debug("meanwhile, as another thread might")
            return "told"

    with (tmp_path / "journal").open("w+") as stream:
        found = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        configured(stream, level="debug", format="console")
        structlog.get_logger("x").error("it broke", what=Telling())
        stream.seek(0)
        assert [line[:3] for line in stream.read().splitlines()] == ["<7>", "<3>"]


@pytest.fixture
def journal(monkeypatch, tmp_path):
    """A journal's socket; its entries come as they are. What it does not take is in the file `tmp_path / "stream"`."""
    with (
        (tmp_path / "stream").open("w") as stream,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
    ):
        listening.bind(str(tmp_path / "socket"))
        listening.settimeout(10)
        found = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        monkeypatch.setattr(systemd, "JOURNAL", str(tmp_path / "socket"))
        yield types.SimpleNamespace(
            stream=stream, entry=lambda: fields_of(listening.recv(1 << 20)), close=listening.close
        )


def fields_of(entry):
    """The fields of an entry, all of which tell their length: systemd.io/JOURNAL_NATIVE_PROTOCOL."""
    found = {}
    while entry:
        name, _, rest = entry.partition(b"\n")
        length = int.from_bytes(rest[:8], "little")
        found[name.decode()], entry = rest[8 : 8 + length].decode(), rest[8 + length :].removeprefix(b"\n")
    return found


@pytest.mark.parametrize("form", ["json", "console"])
def test_the_journal_has_fields(configured, journal, form):
    configured(journal.stream, format=form)
    structlog.get_logger("x").info("batch ended", batch="batch_1", failed=2, cost_usd="0.1", problems=["a"])
    tell()
    logging.getLogger("asyncio").warning("theirs")
    ended, broke, theirs = (journal.entry() for _ in range(3))
    assert "batch ended" in ended.pop("MESSAGE")
    assert ended.pop("FIBATCHD_TIMESTAMP").endswith("Z")
    assert ended == {
        "PRIORITY": "6", "SYSLOG_IDENTIFIER": "fibatchd", "FIBATCHD_EVENT": "batch ended", "FIBATCHD_LEVEL": "info",
        "FIBATCHD_BATCH": "batch_1", "FIBATCHD_FAILED": "2", "FIBATCHD_COST_USD": "0.1",
    }  # fmt: skip
    assert broke["PRIORITY"] == "3"
    assert len(broke["FIBATCHD_EXCEPTION"].splitlines()) > 3
    assert SECRET not in "".join(broke.values())
    assert (theirs["FIBATCHD_EVENT"], theirs["FIBATCHD_LOGGER"]) == ("theirs", "asyncio")
    assert journal.stream.tell() == 0, "nothing is told twice"


def test_what_the_journal_does_not_take_goes_to_the_stream(configured, journal):
    configured(journal.stream)
    structlog.get_logger("x").info("long", text="x" * 10_000_000)
    journal.close()
    structlog.get_logger("x").info("nobody listens")
    with open(journal.stream.name) as written:
        assert [json.loads(line.removeprefix("<6>"))["event"] for line in written] == ["long", "nobody listens"]


def test_a_line_of_the_journal_holds_no_key(configured, journal):
    configured(journal.stream)
    structlog.get_logger("x").info("request", path=f"/v1/{KEY}/x")
    assert KEY not in "".join(journal.entry().values())


def test_another_stream_than_the_journals(configured, monkeypatch, tmp_path):
    monkeypatch.setenv("JOURNAL_STREAM", "1:1")
    with (tmp_path / "file").open("w+") as stream:
        configured(stream)
        structlog.get_logger("x").info("hello")
        stream.seek(0)
        assert stream.read().startswith("{")
