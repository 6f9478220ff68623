"""Patience: a broker that is away is tried again, but not for ever; and real restarts of one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import pyarrow as pa
import pytest

from covey.client.errors import StrangerError, UnreachableError
from covey.pipeline.datasource.options import read_options, write_options
from covey.pipeline.datasource.patience import PAUSE_MAX_S, Absence, Patience
from covey.pipeline.datasource.reader import StreamReader
from covey.pipeline.datasource.sink import PIECES_AHEAD, cut, send_partition
from covey.pipeline.errors import PipelineError
from tests.e2e.support import HOST, running_broker
from tests.pipeline.queues import at, bodies_of, fill

AWAY = UnreachableError("no broker answers at b:1")


class Time:
    """A clock that goes on while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now += pause_s

    def absence(self, patience: Patience) -> Absence:
        return Absence(patience, lambda: self.now, self.sleep)


def test_pauses_grow_until_the_time_is_over() -> None:
    time = Time()
    absence = time.absence(Patience())
    with (
        pytest.warns(UserWarning, match="trying again for 120 s"),
        pytest.raises(UnreachableError, match=r"at b:1; tried for 120 s$"),
    ):
        while True:
            absence.wait(AWAY)
    assert time.now == pytest.approx(120.0)
    assert 0.1 < time.pauses[0] < 0.3 and 0.3 < time.pauses[1] < 0.5
    assert max(time.pauses) <= PAUSE_MAX_S * 1.2


@pytest.mark.filterwarnings("ignore:no broker answers")
def test_tries_are_counted_anew_once_the_broker_has_answered() -> None:
    absence = Time().absence(Patience(tries=2))
    for _ in range(3):
        absence.wait(AWAY)
        absence.wait(AWAY)
        absence.end()
    absence.wait(AWAY)
    absence.wait(AWAY)
    with pytest.raises(UnreachableError, match="no broker answers"):
        absence.wait(AWAY)


def test_nobody_waits_for_a_stranger_to_become_a_broker() -> None:
    with pytest.raises(StrangerError, match="speaks HTTP"):
        Time().absence(Patience()).wait(StrangerError("b:1 speaks HTTP, not STOMP"))


def test_a_broker_that_stays_away_ends_a_query_by_its_option() -> None:
    given = {"brokers": f"{HOST}:1,{HOST}:2", "subscribe": "q", "fetchOffset.numRetries": "0"}
    with pytest.raises(PipelineError, match=rf"^brokers={HOST}:1,{HOST}:2: no broker answers"):
        StreamReader(read_options(given, is_stream=True)).initialOffset()


@pytest.mark.filterwarnings("ignore:.*trying again")
def test_source_and_sink_ride_over_a_broker_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        fill(broker, "ridden", 6)
        brokers = f"{HOST}:1,{at(broker)}"  # the first never answers
        given = {"brokers": brokers, "subscribe": "ridden", "startingOffsets": "earliest"}
        reader = StreamReader(read_options(given | {"minPartitions": "2"}, is_stream=True))
        parts = reader.partitions({"ridden": 1}, {"ridden": 7})
        first, second = [reader.read(part) for part in parts]
        seqs = [seq for batch in first for seq in batch.column("seq").to_pylist()]
        batch = pa.RecordBatch.from_pydict({"value": [b"%d" % number for number in range(9)]})
        sink = write_options(
            {"brokers": brokers, "queue": "sent", "transactionRows": "4"}, ["value"]
        )

        def pieces() -> object:
            for number, piece in enumerate(cut([batch], 3)):
                if number == 2:
                    broker.signal(signal.SIGKILL)  # six rows are there, or on their way
                yield piece

        port = ("--stomp", at(broker))
        opened = running_broker(tmp_path, arguments=port)
        revived = Timer(0.5, opened.__enter__)
        revived.start()
        assert send_partition(sink, pieces(), "query", 3).rows == 9  # type: ignore[arg-type]
        revived.join()
        try:
            seqs += [seq for batch in second for seq in batch.column("seq").to_pylist()]
            assert seqs == [1, 2, 3, 4, 5, 6]
            assert send_partition(sink, iter([batch]), "query", 3).rows == 9  # done anew
            assert bodies_of(broker, "sent") == batch.column("value").to_pylist()
        finally:
            opened.__exit__(None, None, None)


@pytest.mark.filterwarnings("ignore:.*trying again")
@pytest.mark.slow
def test_pieces_that_were_under_way_at_a_kill_come_once_and_in_their_order(tmp_path: Path) -> None:
    with ExitStack() as brokers:
        first = brokers.enter_context(running_broker(tmp_path))
        running = [first]
        rows = [b"%d" % number for number in range(40 * PIECES_AHEAD)]

        def batches() -> Iterator[pa.RecordBatch]:
            for number, value in enumerate(rows):
                if number in (1, 3 * PIECES_AHEAD, 20 * PIECES_AHEAD + 2):
                    running[-1].signal(signal.SIGKILL)
                    port = ("--stomp", at(first))
                    running.append(brokers.enter_context(running_broker(tmp_path, arguments=port)))
                yield pa.RecordBatch.from_pydict({"value": [value]})

        given = {"brokers": at(first), "queue": "ahead", "transactionRows": "1"}
        options = write_options(given, ["value"])
        assert send_partition(options, batches(), "query", 3).rows == len(rows)
        assert bodies_of(first, "ahead") == rows
