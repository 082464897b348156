"""Structured logs: one JSON line per event, on standard error."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import TextIO

import structlog


class Unfailing(io.TextIOBase, TextIO):
    """A stream for logs. What a full disk does not take is lost, and whoever logged goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def log_to_stderr() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(Unfailing(sys.stderr)),
    )
