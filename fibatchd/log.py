"""Logging: structlog, one line an event, JSON for machines or coloured for a terminal. Never a key, prompt or result."""

import logging
import sys
from typing import Any

import structlog

from fibatchd.config import Log


def configure(settings: Log, stream: Any = None) -> None:
    """Set the process's logging; called at start and again by a reload."""
    stream = stream or sys.stderr
    level = logging.getLevelName(settings.level.upper())
    console = settings.format == "console" or (settings.format == "auto" and stream.isatty())
    renderer: Any
    if console:
        renderer = structlog.dev.ConsoleRenderer(
            # Local variables may hold prompts; the plain formatter shows none.
            exception_formatter=structlog.dev.plain_traceback
        )
    else:
        renderer = structlog.processors.JSONRenderer()
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not console:
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    # Libraries speak through the standard library's logging; what they have to say is for operators, too.
    logging.basicConfig(stream=stream, level=max(level, logging.WARNING), format="%(levelname)s %(name)s %(message)s")
