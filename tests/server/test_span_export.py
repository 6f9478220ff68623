"""Span export: a real broker, real clients, and a collector on loopback that speaks OTLP."""

from __future__ import annotations

import gzip
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue as Letterbox
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from proton import Message
from proton.utils import BlockingConnection

from tests.e2e.support import HOST, TIMEOUT_S, BrokerProcess, running_broker

TRACE = "0af7651916cd43dd8448eb211c80319c"
SENDER = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SENDER}-01"


class Collector:
    """What an OpenTelemetry collector hears: requests of POST /v1/traces."""

    def __init__(self, status: int = 200) -> None:
        heard: Letterbox[tuple[str, dict[str, str], WireSpan]] = Letterbox()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()
                request = ExportTraceServiceRequest.FromString(body)
                for of_resource in request.resource_spans:
                    told = of_resource.resource.attributes
                    resource = {each.key: each.value.string_value for each in told}
                    for of_scope in of_resource.scope_spans:
                        for span in of_scope.spans:
                            heard.put((self.path, resource, span))

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.heard = heard
        self.server = ThreadingHTTPServer((HOST, 0), Handler)
        self.url = f"http://{HOST}:{self.server.server_address[1]}"

    def spans(self, count: int) -> dict[str, WireSpan]:
        """Wait for spans; give them by name."""
        return {
            span.name: span
            for _, _, span in [self.heard.get(timeout=TIMEOUT_S) for _ in range(count)]
        }


@contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    collector = Collector(status)
    thread = Thread(target=collector.server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        collector.server.server_close()
        thread.join()


def attributes(span: WireSpan) -> dict[str, str | int]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def amqp(broker: BrokerProcess) -> BlockingConnection:
    return BlockingConnection(
        f"amqp://admin:password@{HOST}:{broker.port_of(1)}",
        timeout=TIMEOUT_S,
        allowed_mechs="PLAIN",
    )


def through(broker: BrokerProcess, **headers: str) -> str:
    """Send a message from STOMP to AMQP; give the trace context that arrives."""
    with broker.client() as sender:
        sender.send(
            "SEND", {"destination": "/queue/orders", "JMSXGroupID": "o-17", **headers}, b"x"
        )
        connection = amqp(broker)
        try:
            receiver = connection.create_receiver("orders")
            message = receiver.receive(TIMEOUT_S)
            receiver.accept()
        finally:
            connection.close()
    properties: dict[str, object] = message.properties or {}
    return str(properties.get("traceparent", ""))


def test_a_collector_is_told_of_receive_queue_and_deliver(tmp_path: Path) -> None:
    with collecting() as collector:
        config = f'[telemetry]\nendpoint = "{collector.url}/"\n'
        with running_broker(tmp_path, config=config) as broker:
            assert through(broker, traceparent=SAMPLED, persistent="true") == SAMPLED
            path, resource, receive = collector.heard.get(timeout=TIMEOUT_S)
            others = collector.spans(2)
    queue, deliver = others["queue orders"], others["deliver orders"]
    assert (path, resource["service.name"]) == ("/v1/traces", "covey")
    assert (receive.name, receive.kind) == ("receive orders", WireSpan.SPAN_KIND_CONSUMER)
    assert {span.trace_id.hex() for span in (receive, queue, deliver)} == {TRACE}
    assert receive.parent_span_id.hex() == SENDER
    assert queue.parent_span_id == deliver.parent_span_id == receive.span_id
    for span in (receive, queue, deliver):
        assert attributes(span)["covey.group"] == "o-17"
        assert attributes(span)["messaging.destination.name"] == "orders"
    assert receive.start_time_unix_nano < receive.end_time_unix_nano == queue.start_time_unix_nano
    assert attributes(deliver)["covey.outcome"] == "accepted"


def test_the_usual_variable_names_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-broker")
        with running_broker(tmp_path) as broker:
            through(broker, traceparent=SAMPLED)
            path, resource, _ = collector.heard.get(timeout=TIMEOUT_S)
    assert (path, resource["service.name"]) == ("/v1/traces", "orders-broker")


def test_what_is_left_at_the_end_is_sent(tmp_path: Path) -> None:
    with collecting() as collector:
        config = f'[telemetry]\nendpoint = "{collector.url}"\n'
        with running_broker(tmp_path, config=config) as broker:
            through(broker, traceparent=SAMPLED)
            assert broker.signal(signal.SIGTERM) == 0
        assert set(collector.spans(3)) == {"receive orders", "queue orders", "deliver orders"}


def test_a_collector_that_refuses_costs_a_line_in_the_log_and_nothing_else(tmp_path: Path) -> None:
    with collecting(400) as collector:
        config = f'[telemetry]\nendpoint = "{collector.url}"\n'
        with running_broker(tmp_path, config=config) as broker:
            assert through(broker, traceparent=SAMPLED) == SAMPLED
            collector.spans(3)
            assert broker.signal(signal.SIGTERM) == 0
            assert "spans_lost" in broker.log


def test_amqp_carries_a_trace_to_stomp_from_properties_and_from_annotations(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path) as broker:
        connection = amqp(broker)
        sender = connection.create_sender("orders")
        sender.send(Message("a", properties={"traceparent": SAMPLED, "tracestate": "v=1"}))
        sender.send(Message("b", annotations={"traceparent": SAMPLED, "tracestate": "v=2"}))
        connection.close()
        with broker.client() as reader:
            reader.subscribe("/queue/orders")
            for state in ("v=1", "v=2"):
                headers = reader.frame().headers(reader.version)
                assert (headers["traceparent"], headers["tracestate"]) == (SAMPLED, state)
