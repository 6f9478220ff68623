"""The broker's log: its form, and where its lines go.

They go to standard error, or to a file (`--log-file`). The file may be moved away or cut off by
whoever rotates it (logrotate with `create` or with `copytruncate`): before each line the broker
looks whether the file is still where it was, and makes a new one if not. No signal is needed.

A log that cannot be written, on a full disk or into a closed pipe, stops no broker. The lines are
lost; once there is room again the log says how many.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

from covey.cli.output import harmless_lines

STDERR: Final = 2
MODE: Final = 0o640  # who rotates and reads logs is often in a group of their own
LOST: Final = "log_lines_lost"


class LogWriter:
    """Takes lines for standard error, or for a file that others may move away."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the file; raises OSError if that cannot be done now."""
        self._path = path
        self._lost = 0
        self._is_broken = False  # the last line has no end
        self._descriptor = STDERR if path is None else _opened(path)

    def write(self, text: str) -> None:
        """Write a line as a whole, or count it as lost."""
        try:
            self._follow()
            if self._lost:
                self._put(
                    json.dumps({"event": LOST, "level": "warning", "count": self._lost}) + "\n"
                )
                self._lost = 0
            self._put(text)
        except OSError:
            self._lost += 1

    def flush(self) -> None:
        """Have nothing to do: every line is written at once."""

    def _put(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        if self._is_broken:
            data = b"\n" + data
        written = os.write(self._descriptor, data)
        self._is_broken = written < len(data)
        if self._is_broken:
            raise OSError("the line does not fit")

    def _follow(self) -> None:
        """Open the file anew if it is no longer at its place."""
        if self._path is None:
            return
        ours = os.fstat(self._descriptor)
        with suppress(FileNotFoundError):
            there = os.stat(self._path)
            if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                return
        descriptor = _opened(self._path)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._is_broken = False


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)


def make_logger(form: str | None, path: Path | None, *, verbose: bool) -> FilteringBoundLogger:
    """Return the log in the form that is asked for; a person at a terminal gets no JSON."""
    is_terminal = path is None and sys.stderr.isatty()
    is_for_people = is_terminal if form is None else form == "console"
    people = [harmless, structlog.dev.ConsoleRenderer(colors=is_terminal)]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *(people if is_for_people else [structlog.processors.JSONRenderer()]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbose else logging.INFO
        ),
        logger_factory=_Lines(LogWriter(path)),
        cache_logger_on_first_use=True,
    )
    log: FilteringBoundLogger = structlog.get_logger()
    return log


class _Lines:
    """Makes loggers that write whole lines, whatever their level."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer

    def __call__(self, *_names: object) -> _Lines:
        return self

    def msg(self, message: str) -> None:
        self._writer.write(f"{message}\n")

    debug = info = warning = error = critical = exception = fatal = log = failure = warn = msg


def harmless(log: object, method: str, event: EventDict) -> EventDict:
    """Write what cannot be printed as escapes: no group's name may steer an operator's terminal."""
    return {
        key: harmless_lines(value) if isinstance(value, str) else value
        for key, value in event.items()
    }
