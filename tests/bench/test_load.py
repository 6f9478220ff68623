"""The generator against the sink: a real run, small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripts.benchmark.contender import Sink
from scripts.benchmark.process import Process

from covey.bench.generator import generate
from covey.bench.load import Load
from covey.bench.wire.link import IncompleteError, Job
from covey.bench.wire.stomp import StompLink


@pytest.fixture(scope="module")
def sink() -> Iterator[Process]:
    process = Sink().start()
    yield process
    process.stop()


def job(sink: Process, **fields: object) -> Job:
    defaults: dict[str, object] = {"destination": "/queue/a", "count": 500, "size": 128}
    return Job(port=sink.port, **{**defaults, **fields})  # type: ignore[arg-type] # checked by use


def test_everything_sent_is_counted(sink: Process) -> None:
    assert Load(job(sink)).run().deliveries == 500


def test_fan_out_counts_every_subscriber(sink: Process) -> None:
    fan_out = job(sink, destination="/topic/a", consumers=3, is_fan_out=True)
    assert Load(fan_out).run().deliveries == 1500


def test_competing_consumers_share_and_acknowledge(sink: Process) -> None:
    shared = job(sink, consumers=2, ack="client-individual", window=100)
    assert Load(shared).run().deliveries == 500


def test_a_round_trip_is_timed_for_each_message(sink: Process) -> None:
    outcome = Load(job(sink, count=20, is_ping_pong=True)).run()
    assert len(outcome.round_trips_s) == 20
    assert all(0 < time < 10 for time in outcome.round_trips_s)


def test_the_generator_runs_as_a_process_of_its_own(sink: Process) -> None:
    outcome, cpu_s = generate(job(sink, count=100))
    assert outcome.deliveries == 100
    assert cpu_s > 0


def test_a_broker_that_is_not_there_is_an_error() -> None:
    nowhere = Job(port=1, destination="/queue/a", count=1, size=128)
    with pytest.raises(RuntimeError, match="refused"):
        generate(nowhere)


def test_an_answer_that_is_none_stops_the_run(sink: Process) -> None:
    link = StompLink(job(sink))
    with pytest.raises(IncompleteError, match="answered"):
        link.ask(b"CONNECT\n\n\0", b"RECEIPT")


def test_a_process_is_gone_after_its_stop_and_its_files_too() -> None:
    process = Sink().start()
    assert process.resident_bytes() > 1_000_000
    assert process.cpu_s() > 0
    process.stop()
    assert process.child.poll() is not None
    assert not process.directory.exists()
