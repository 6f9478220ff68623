"""Span export: finished spans go to a collector in batches (OTLP over HTTP), from a thread.

The event loop only appends to a bounded list (`take`). What finds no room there is left out and
counted, and the count is logged. The thread turns spans into OpenTelemetry's own, and its exporter
sends them; a collector that is slow or away keeps only that thread waiting. At the end the
thread has a moment for what is left (`CLOSE_S`).

The collector is `endpoint` of `[telemetry]`, else what OTEL_EXPORTER_OTLP_ENDPOINT names. The other
variables of OpenTelemetry hold, too, such as OTEL_EXPORTER_OTLP_HEADERS and
OTEL_RESOURCE_ATTRIBUTES. Without a collector nothing of this is loaded.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import structlog

from covey import __version__
from covey.config.settings import TelemetrySettings
from covey.core.clock import Clock
from covey.core.errors import StoreError
from covey.server.spans import Follower, Span, follower

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

EXPORT_S: Final = 1.0  # how long a span may wait before it is sent
BATCH_MAX: Final = 512  # spans of one request
CLOSE_S: Final = 3.0
PATH: Final = "/v1/traces"
EXTRA: Final = "opentelemetry.exporter.otlp.proto.http"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
DISABLED: Final = "OTEL_SDK_DISABLED"

Log = structlog.typing.FilteringBoundLogger


class SpanExport:
    """The spans that wait, and the thread that sends them."""

    def __init__(self, exporter: SpanExporter, resource: Any, waiting_max: int, log: Log) -> None:
        """Begin to send; `resource` says whose spans they are."""
        self.dropped = 0
        self.failed = 0  # spans of batches that the collector did not take
        self._exporter = exporter
        self._resource = resource
        self._waiting: deque[Span] = deque()
        self._waiting_max = waiting_max
        self._log = log
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def take(self, span: Span) -> None:
        """Take a finished span; never waits."""
        if len(self._waiting) < self._waiting_max:
            self._waiting.append(span)
        else:
            self.dropped += 1

    def close(self) -> None:
        """Send what is left, but not for long."""
        self._is_closing.set()
        self._thread.join(CLOSE_S)
        self._exporter.shutdown()

    def _run(self) -> None:
        told = 0
        is_last = False
        while not is_last:
            is_last = self._is_closing.wait(EXPORT_S)
            while self._waiting:
                self._send()
            lost = self.dropped + self.failed
            if lost > told:
                self._log.warning("spans_lost", no_room=self.dropped, not_taken=self.failed)
                told = lost

    def _send(self) -> None:
        """Send one batch; one that the collector does not take is lost, and counted."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        count = min(BATCH_MAX, len(self._waiting))
        batch = [readable(self._waiting.popleft(), self._resource) for _ in range(count)]
        try:
            is_sent = self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as error:  # a library's: it must not end the thread
            is_sent = False
            self._log.warning("span_export_failed", reason=f"{type(error).__name__}: {error}")
        if not is_sent:
            self.failed += count


def readable(span: Span, resource: Any) -> ReadableSpan:
    """Return a span as OpenTelemetry's exporters want it."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

    kinds = {"receive": SpanKind.CONSUMER, "deliver": SpanKind.PRODUCER}
    sampled = TraceFlags(TraceFlags.SAMPLED)
    parent = None
    if span.parent:
        parent = SpanContext(span.trace, span.parent, span.is_parent_remote, sampled)
    return ReadableSpan(
        name=f"{span.name} {span.attributes['messaging.destination.name']}",
        context=SpanContext(span.trace, span.id, is_remote=False, trace_flags=sampled),
        parent=parent,
        resource=resource,
        attributes={**span.attributes, "messaging.operation.name": span.name},
        kind=kinds.get(span.name, SpanKind.INTERNAL),
        instrumentation_scope=InstrumentationScope("covey", __version__),
        start_time=span.start_ns,
        end_time=span.end_ns,
    )


def open_telemetry(
    telemetry: TelemetrySettings,
    instance: str,
    clock: Clock,
    environment: Mapping[str, str],
    log: Log,
) -> tuple[Follower, SpanExport] | None:
    """Begin to follow messages if there is a collector to tell; None: nobody asks for it.

    Raise StoreError if the configuration asks for it, and the extra is not installed.
    """
    endpoint = _endpoint(telemetry, environment)
    if not endpoint:
        return None
    if not _is_installed():
        reason = "telemetry needs the extra `otel`: pip install 'covey[otel]'"
        if telemetry.endpoint is not None:
            raise StoreError(reason)
        log.warning("telemetry_is_off", reason=reason)
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource

    # The library logs each failure with a page of text; `spans_lost` says it in a line.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    name = environment.get("OTEL_SERVICE_NAME") or "covey"
    told = {"service.name": name, "service.version": __version__, "service.instance.id": instance}
    resource = Resource.create(told)
    exporter = OTLPSpanExporter(endpoint=endpoint)
    export = SpanExport(exporter, resource, telemetry.backlog_max, log)
    log.info("telemetry", endpoint=endpoint)
    return follower(telemetry, clock, export.take), export


def _endpoint(telemetry: TelemetrySettings, environment: Mapping[str, str]) -> str:
    """Return the collector's URL for spans, "" if there is none."""
    if telemetry.endpoint is not None:
        return telemetry.endpoint.rstrip("/") + PATH
    if environment.get(DISABLED, "").lower() == "true":
        return ""
    whole = environment.get(TRACES_ENDPOINT, "")
    base = environment.get(ENDPOINT, "").rstrip("/")
    return whole or (base + PATH if base else "")


def _is_installed() -> bool:
    try:
        return find_spec(EXTRA) is not None
    except ModuleNotFoundError:
        return False
