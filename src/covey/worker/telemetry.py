"""What a worker tells of its work: counts and durations, a log, traces.

An `Observer` is told everything that happens; `Counts` is one that counts. The log is structlog's
if the program has configured structlog, else the standard library's. Traces are OpenTelemetry's if
its API is installed. A sent message carries the current span in its headers (`outgoing`), and a
handler runs in a span that continues the sender's. Both libraries are looked for when a worker
starts, not when this package is imported.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from covey.worker.message import Message

LOGGER: Final = "covey.worker"


class Observer:
    """Is told what a worker does; override what you need. Each method must return at once."""

    def received(self, message: Message) -> None:
        """Called when a message has come."""

    def started(self, message: Message, lag_s: float | None) -> None:
        """Called when a handler begins; `lag_s` is the time since the message was sent."""

    def handled(self, message: Message, duration_s: float) -> None:
        """Called when a handler has returned; the message is acknowledged."""

    def failed(self, message: Message, error: BaseException, duration_s: float) -> None:
        """Called when a handler has raised; the message comes again, or is dead-lettered."""

    def given_back(self, message: Message) -> None:
        """Called when a message goes back unhandled: an earlier one failed, or its group moved."""

    def connected(self, address: str) -> None:
        """Called when a connection to a broker is open."""

    def disconnected(self, reason: str) -> None:
        """Called when the connection is lost; messages that were being handled will come again."""


class Counts(Observer):
    """Counts, total duration and the last lag."""

    def __init__(self) -> None:
        self.messages_received = 0
        self.messages_handled = 0
        self.messages_failed = 0
        self.messages_given_back = 0
        self.connections = 0
        self.duration_s = 0.0
        self.lag_s = 0.0

    def received(self, message: Message) -> None:
        """Count it."""
        self.messages_received += 1

    def started(self, message: Message, lag_s: float | None) -> None:
        """Note the lag."""
        self.lag_s = self.lag_s if lag_s is None else lag_s

    def handled(self, message: Message, duration_s: float) -> None:
        """Count it, and its time."""
        self.messages_handled += 1
        self.duration_s += duration_s

    def failed(self, message: Message, error: BaseException, duration_s: float) -> None:
        """Count it, and its time."""
        self.messages_failed += 1
        self.duration_s += duration_s

    def given_back(self, message: Message) -> None:
        """Count it."""
        self.messages_given_back += 1

    def connected(self, address: str) -> None:
        """Count it."""
        self.connections += 1


def lag_of(message: Message) -> float | None:
    """Return the time since a message was sent, if known; clocks may differ a little."""
    return None if message.sent_at is None else max(0.0, time.time() - message.sent_at)


class Log:
    """Writes events with fields, through structlog or through the standard library."""

    def __init__(self) -> None:
        structlog = _installed("structlog")
        is_used = structlog is not None and structlog.is_configured()
        self._structlog = structlog.get_logger(LOGGER) if is_used else None
        self._logger = logging.getLogger(LOGGER)

    def info(self, event: str, **fields: object) -> None:
        """Log a normal event."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log an event that somebody may want to look at."""
        self._write(logging.WARNING, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._structlog is not None:
            self._structlog.log(level, event, **fields)
            return
        told = "".join([f" {name}={value}" for name, value in fields.items()])
        self._logger.log(level, "%s%s", event, told)


class Tracer:
    """Puts each handler's run into a span, if OpenTelemetry is there."""

    def __init__(self) -> None:
        trace = _installed("opentelemetry.trace")
        self._trace = trace
        self._tracer = None if trace is None else trace.get_tracer(LOGGER)
        self.is_on = trace is not None

    @contextmanager
    def span(self, message: Message) -> Iterator[None]:
        """Run a handler in a span that continues its sender's; call this only if `is_on`."""
        assert self._tracer is not None
        assert self._trace is not None
        propagate = importlib.import_module("opentelemetry.propagate")
        attributes = {
            "messaging.system": "covey",
            "messaging.operation.type": "process",
            "messaging.destination.name": message.destination,
            "messaging.message.id": message.id,
        }
        with self._tracer.start_as_current_span(
            f"process {message.destination}",
            context=propagate.extract(dict(message.headers)),
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
        ):
            yield


def _installed(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
