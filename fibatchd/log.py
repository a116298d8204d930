"""Logging: structlog, one line an event, JSON for machines or coloured for a terminal. Never a key, prompt or result.

What libraries say through the standard library's `logging` comes out the same way. In systemd's journal an event is an entry
with fields; where that cannot be, lines that begin with their severity, in the form of sd-daemon(3).
"""

import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from fibatchd.config import Log
from fibatchd.errors import FibatchdError
from fibatchd.printable import printable
from fibatchd.systemd import is_journal, journal_entry, send_to_journal

PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""syslog(3)'s numbers."""

_TELLING = (FibatchdError, OSError, TypeError, AttributeError, NameError, ImportError)
"""Exceptions whose text is made of what the program's author or the system wrote. Others may quote what was worked on."""
_KEY = re.compile(r"hyi-[A-Za-z0-9_-]{8,}")


def configure(settings: Log, stream: Any = None) -> None:
    """Set the process's logging; called at start and again by a reload."""
    out = Output(stream or sys.stderr)
    level = logging.getLevelName(settings.level.upper())
    console = settings.format == "console" or (settings.format == "auto" and out.stream.isatty())
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(colors=out.stream.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer(default=_described)
    )
    for_output: list[Processor] = [plain] if console else []
    renderer = out.for_journal(renderer)
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(tell_exception),
        without_keys,
    ]
    structlog.configure(
        processors=[*common, *for_output, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: out,
        cache_logger_on_first_use=False,
    )
    _route_standard_library(out, [*common, *for_output], renderer, max(level, logging.WARNING))
    _route_uncaught()


class Output:
    """Where lines go. A stream that is broken or closed takes the log away, and nothing else."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def for_journal(self, render: Processor) -> Processor:
        """Return a renderer that sends entries, where the stream is the journal's; what it returns is left to be written."""
        if not is_journal(self.stream):
            return render

        def sent(logger: Any, method: str, event: EventDict) -> str:
            fields = dict(event)  # a renderer takes out of the event what it has told
            text = str(render(logger, method, event))
            priority = PRIORITIES.get(fields.get("level", method), 6)
            if send_to_journal(_entry(fields, text, priority)):
                return ""
            # A terminal's form may spread an event over lines.
            return "\n".join(f"<{priority}>{line}" for line in text.splitlines())

        return sent

    def msg(self, text: str) -> None:
        """Write an event."""
        if not text:
            return
        try:
            self.stream.write(text + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            return

    log = debug = info = warning = error = critical = exception = msg


def _entry(event: EventDict, text: str, priority: int) -> bytes:
    fields: dict[str, object] = {"MESSAGE": text, "PRIORITY": priority, "SYSLOG_IDENTIFIER": "fibatchd"}
    fields |= {f"FIBATCHD_{name.upper()}": told for name, told in event.items() if isinstance(told, str | int | float)}
    return journal_entry(fields)


class _Handler(logging.Handler):
    """Hands records of the standard library on to the output."""

    def __init__(self, out: Output) -> None:
        super().__init__()
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            self._out.msg(self.format(record))
        except Exception:
            # What a library says must not end what it does.
            self._out.msg(f'{{"event": "a log record could not be written", "logger": "{record.name}"}}')


def _route_standard_library(out: Output, common: list[Processor], renderer: Processor, level: int) -> None:
    handler = _Handler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *common],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)


def _route_uncaught() -> None:
    """Have what nobody caught logged, too: the interpreter would print its text, whatever that quotes."""
    log = structlog.get_logger(__name__)

    def tell(where: str, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, SystemExit):
            log.critical("not caught", where=where, exc_info=(type(error), error, error.__traceback__))

    sys.excepthook = lambda _, error, __: tell("main", error)
    threading.excepthook = lambda args: tell("thread", args.exc_value)
    sys.unraisablehook = lambda args: tell("finalizer", args.exc_value)


def tell_exception(exc_info: ExcInfo) -> str:
    """Return an exception for the log: its type and where it came from, in one group as in several, and its text only where
    that cannot quote what was worked on. Never the values of variables."""
    return "\n".join(_told(exc_info[1]))


def _told(error: BaseException, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and id(cause) not in seen:
        yield from _told(cause, seen | {id(error)})
        yield "which led to:"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    yield f"{kind}: {error}" if isinstance(error, _TELLING) else kind
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from (f"  | {line}" for line in _told(part, seen | {id(error)}))


def without_keys(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Take API keys out of all texts, should one have got into them: a client may put its key into a path, say."""
    for name, value in event.items():
        if isinstance(value, str) and "hyi-" in value:
            event[name] = _KEY.sub("hyi-…", value)
    return event


def plain(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Make all texts printable: a path, say, may hold anything, and a terminal obeys. JSON has escapes of its own."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = printable(value, lines=name == "exception")
    return event


def _described(value: object) -> str:
    """Return what stands in JSON for a value that has no form there: not its repr, which may hold anything."""
    return f"<{type(value).__name__}>"
