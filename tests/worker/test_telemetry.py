"""What a worker tells: an observer, the log, traces if OpenTelemetry is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import covey
from covey.worker import Counts, Message
from covey.worker.telemetry import lag_of
from covey.worker.testing import MemoryBroker
from tests.worker.support import Book, fill, play

# The few calls of OpenTelemetry's API that are used, as its documentation gives them.
STAND_IN = {
    "__init__.py": "",
    "propagate.py": """
def extract(carrier): return carrier.get("traceparent")
def inject(carrier): carrier["traceparent"] = "span-of-the-sender"
""",
    "trace.py": """
from contextlib import contextmanager
class SpanKind: CONSUMER = "consumer"
class Tracer:
    @contextmanager
    def start_as_current_span(self, name, context, kind, attributes):
        print(name, context, kind, attributes["messaging.destination.name"])
        yield
def get_tracer(name): return Tracer()
""",
}

PROGRAM = """
import opentelemetry.propagate
from covey.worker import Worker
from covey.worker.testing import URL, MemoryBroker, run

worker = Worker(URL, queue="q")

@worker.handler
async def handle(message): pass

async def scenario():
    broker = MemoryBroker()
    await broker.send("q", "x")
    await broker.work(worker)

run(scenario())
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


def test_a_handler_runs_in_a_span_that_continues_the_senders(tmp_path: Path) -> None:
    package = tmp_path / "opentelemetry"
    package.mkdir()
    for name, text in STAND_IN.items():
        (package / name).write_text(text)
    source = Path(covey.__file__).parent.parent
    said = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        env={"PYTHONPATH": f"{source}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "process /queue/q span-of-the-sender consumer /queue/q" in said.stdout
