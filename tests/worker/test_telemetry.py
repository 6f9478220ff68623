"""What a worker tells: an observer, the log, traces if OpenTelemetry is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import covey
from covey.worker import Counts, Message
from covey.worker.telemetry import lag_of
from covey.worker.testing import MemoryBroker
from tests.worker.support import Book, fill, play

# What is set up in a process stays set up, so each program has one of its own.
PROGRAM = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from covey.worker import Reject, Worker
from covey.worker.testing import URL, MemoryBroker, run

seen = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(seen))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")

worker = Worker(URL, queue="orders")

@worker.handler
async def handle(message):
    with tracer.start_as_current_span("look up"):
        pass
    message.send("invoices", "y")
    if message.text == "bad":
        raise Reject("no use")

billing = Worker(URL, queue="invoices")

@billing.handler
async def bill(message): pass

async def scenario():
    broker = MemoryBroker()
    with tracer.start_as_current_span("checkout"):
        await broker.send("orders", "{body}")
    await broker.work(worker)
    await broker.work(billing)

run(scenario())
for span in seen.get_finished_spans():
    parent = "-" if span.parent is None else f"{span.parent.span_id:x}"
    print(span.name, f"{span.context.trace_id:x}", f"{span.context.span_id:x}", parent,
          span.kind.name, span.status.status_code.name, sep="|")
"""


def test_counts_and_durations_are_told() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        book, counts = Book(takes_s=2.0), Counts()
        book.worker.observe(counts)
        await fill(broker, "ab", 3)
        await broker.work(book.worker)
        assert (counts.messages_received, counts.messages_handled) == (6, 6)
        assert round(counts.duration_s, 6) == 12.0
        assert counts.connections == 1

    play(scenario)


def test_the_lag_is_known_if_the_sender_wrote_the_time() -> None:
    assert lag_of(Message({}, b"")) is None
    assert lag_of(Message({"timestamp": "soon"}, b"")) is None
    assert (lag_of(Message({"timestamp": "1000"}, b"")) or 0) > 1e9


class Span(NamedTuple):
    name: str
    trace: str
    id: str
    parent: str
    kind: str
    status: str


def spans(body: str) -> dict[str, Span]:
    """Send an order within a span, work it off; return what OpenTelemetry's SDK was told."""
    source = Path(covey.__file__).parent.parent
    said = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM.replace("{body}", body)],
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = [Span(*line.split("|")) for line in said.stdout.splitlines()]
    return {span.name: span for span in found}


def test_a_handler_runs_in_a_span_that_continues_the_senders() -> None:
    told = spans("good")
    checkout, process = told["checkout"], told["process /queue/orders"]
    assert (process.trace, process.parent) == (checkout.trace, checkout.id)
    assert (process.kind, process.status) == ("CONSUMER", "UNSET")
    assert told["look up"].parent == process.id
    assert told["process /queue/invoices"].parent == process.id


def test_a_span_tells_that_its_handler_failed() -> None:
    assert spans("bad")["process /queue/orders"].status == "ERROR"
